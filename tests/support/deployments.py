"""Settings of a deployment: a catalog on another host, with its files in a bucket."""

from tests.support.servers import Bucket
from tidemark.settings.sections import CatalogSettings, ObjectStore


def catalog_in(uri: str, bucket: Bucket, folder: str = "", kind: str = "sql") -> CatalogSettings:
    """A catalog with warehouse and landing in a folder of a bucket.

    Args:
        uri: of the database, or of the REST catalog.
        bucket: the bucket.
        folder: in the bucket, with a slash at its end; else its root.
        kind: ``sql`` | ``rest``.
    """
    return CatalogSettings(
        type=kind,
        uri=uri,
        warehouse=f"s3://lake/{folder}warehouse",
        store=ObjectStore(bucket.endpoint, path_style=True),
        landing=f"s3://lake/{folder}landing",
    )


def variables_of(catalog: CatalogSettings, bucket: Bucket) -> dict[str, str]:
    """The environment of every process of such a deployment."""
    return bucket.credentials | {
        "TIDEMARK_CATALOG_TYPE": catalog.type,
        "TIDEMARK_CATALOG_URI": catalog.uri,
        "TIDEMARK_WAREHOUSE": catalog.warehouse,
        "TIDEMARK_LANDING": catalog.landing,
        "TIDEMARK_S3_ENDPOINT": bucket.endpoint,
        "TIDEMARK_S3_PATH_STYLE": "on",
    }
