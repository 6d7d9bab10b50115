"""A real RocketMQ cluster on this machine, with a workload: for the demo, the tests and benchmarks.

Here belongs what boots, breaks and loads brokers: the jars (`lab.jars`), which node listens where
(`lab.layout`), configuration files (`lab.config`), processes (`lab.processes`), the cluster itself
(`lab.cluster`), faults (`lab.faults`), the workload (`lab.workloads`) and clients of a Proxy
(`lab.grpc_clients`). Nothing here reads a cluster for its own sake: what brokers respond is the
business of ``rocketmq/``. The lab is the only room that changes brokers, and only those it started
itself.

Everything that goes wrong is a `lab.errors.LabError`: one line: what, where and what to do.
"""
