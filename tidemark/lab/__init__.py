"""A real RocketMQ cluster on this machine, with a workload: for the demo, the tests and benchmarks.

All code that boots, breaks and loads brokers belongs here: the jars (`tidemark.lab.jars`), nodes
and ports (`tidemark.lab.layout`), configuration files (`tidemark.lab.config`), processes
(`tidemark.lab.child_processes`), the cluster itself and its faults (`tidemark.lab.cluster`), the
workload (`tidemark.lab.workloads`) and clients of a Proxy (`tidemark.lab.clients`). Nothing here
reads a cluster for its own sake, as ``tidemark/rocketmq/`` reads responses of brokers. The lab is
the only room that changes brokers, and only those it started itself.

Every failure is a `tidemark.lab.layout.LabError`: one line with the failure, its place and the
remedy.
"""
