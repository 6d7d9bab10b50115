"""Machines and processes: leases, shared state, PostgreSQL, services, failures in one line.

What concerns a host or a process and no table belongs here. It does not know tables or runs.
"""
