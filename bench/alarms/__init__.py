"""False and missed alarms of the ready-made rules, counted on real brokers.

What belongs here: consumers of every mode, healthy ones and ones with a fault, and which incidents
fire about them. What does not: the rules themselves, and hand-written histories, which tests have.
"""
