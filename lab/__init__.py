"""A real RocketMQ cluster on this machine, with a workload: for the demo, the tests and benchmarks.

All code that boots, breaks and loads brokers belongs here: the jars (`lab.jars`), nodes and ports
(`lab.layout`), configuration files (`lab.config`), processes (`lab.processes`), the cluster itself
(`lab.cluster`), faults (`lab.faults`), the workload (`lab.workloads`) and clients of a Proxy
(`lab.grpc_clients`). Nothing here reads a cluster for its own sake, as ``rocketmq/`` reads
responses of brokers. The lab is the only room that changes brokers, and only those it started
itself.

Every failure is a `lab.layout.LabError`: one line with the failure, its place and the remedy.
"""
