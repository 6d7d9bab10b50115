"""Words that several rooms share: enums and small records. Nothing here imports another room."""
