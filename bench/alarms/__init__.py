"""False and missed alarms of the ready-made rules, counted on real brokers.

Consumers of every mode belong here, healthy ones and ones with a fault, and the incidents that fire
about them. The rules themselves do not, nor do hand-written histories, which tests have.
"""
