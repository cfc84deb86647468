"""What the runs took: phases, wall-clock, money, memory, and numbers that cannot be true."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "rollout": "采样",
    "grading": "判分",
    "old log-probs": "旧策略对数概率",
    "reference log-probs": "参考策略对数概率",
    "values": "价值估计",
    "policy update": "策略更新",
    "critic update": "价值网络更新",
    "saving": "保存",
    "evaluation": "评测",
    "other": "其他",
    "No finished run.": "没有完成的运行。",
    "Training: all recorded time that counts in the result, evaluations left out; one device a run. Tokens/s: "
    "sampled (response) tokens of a step over the whole step's seconds, the median over steps; prompt tokens are "
    "not counted. Ratios: geometric mean over the seeds that both arms finished, with the 95 % t interval of the "
    "log ratio.": (
        "训练：计入结果的全部记录时间，不含评测；每次运行用一个设备。token/s：一步中采样得到的（回答）token 数除以整"
        "步的秒数，取各步的中位数；提示的 token 不计入。比值：在两个实验臂都完成的种子上的几何平均，附对数比值的 95 "
        "% t 区间。"
    ),
    "Training {arm} took ×{ratio} of the wall-clock of {first}, from one run of each.": (
        "训练 {arm} 所用的墙钟时间是 {first} 的 {ratio} 倍，各来自一次运行。"
    ),
    "Training {arm} took ×{ratio} of the wall-clock of {first} (95 % interval {interval}, {pairs}).": (
        "训练 {arm} 所用的墙钟时间是 {first} 的 {ratio} 倍（95 % 置信区间 {interval}，{pairs}）。"
    ),
    "{n} pairs of runs": "{n} 对运行",
    "price at {price} a device-hour": "费用，每设备小时 {price}",
    "training, wall-clock": "训练，墙钟时间",
    "training, device-hours": "训练，设备小时",
    "median tokens/s": "token/s 中位数",
    "evaluation, wall-clock": "评测，墙钟时间",
    "work lost to restarts": "因重启而丢失的工作",
    "{arm} relative to {first}": "{arm} 相对 {first}",
    "mean over seeds": "种子间均值",
    "runs overlapped in time, so they slowed each other down": "运行在时间上重叠，因而彼此拖慢",
    "runs had different machines or thread counts, or unlike numbers of runs worked at a time": (
        "各次运行的机器或线程数不同，或同时进行的运行数不同"
    ),
    "No cost ratios: {faults}.": "不给出成本比值：{faults}。",
    "The arms did not take turns seed by seed, so a drift of the machine's speed may favour one of them.": (
        "各实验臂没有按种子轮流运行，因此机器速度的漂移可能偏向其中之一。"
    ),
    "{n} runs worked at a time, on cores of their own but sharing memory; the arms took turns, seed by seed.": (
        "每次同时进行 {n} 个运行，各用自己的核心，但共用内存；各实验臂按种子轮流运行。"
    ),
    "Runs had the machine to themselves and the arms took turns, seed by seed.": (
        "各次运行独占机器，各实验臂按种子轮流运行。"
    ),
    "Training seconds by phase": "各阶段的训练秒数",
    "phase": "阶段",
    "share": "占比",
    "Training time by phase, a run": "每次运行各阶段的训练时间",
    "US dollars of training a run, {price} a device-hour": "每次运行的训练费用（美元），每设备小时 {price}",
    "{metric} on {suite}, %": "{suite} 上的 {metric}（%）",
    "What the training bought": "训练换来了什么",
    "Impossible as resident memory: the allocator's peak of {allocated} is more than the device's {capacity}. "
    "Units may be mixed (GB and GiB), or the allocator counts memory that it had given back (an inference engine "
    "asleep, for instance).": (
        "作为常驻内存不可能：分配器的峰值 {allocated} 超过设备的 {capacity}。可能混用了单位（GB 与 GiB），或分配器计"
        "入了已归还的内存（例如处于休眠的推理引擎）。"
    ),
    "Impossible: the device's peak of {peak} is more than its {capacity}. Units may be mixed (GB and GiB).": (
        "不可能：设备的峰值 {peak} 超过其容量 {capacity}。可能混用了单位（GB 与 GiB）。"
    ),
    "Contradiction: the allocator's peak of {allocated} is more than the peak of the whole device, {peak}. At "
    "least one of them is not what its name says.": (
        "矛盾：分配器的峰值 {allocated} 超过整个设备的峰值 {peak}。其中至少一个与其名称不符。"
    ),
    "{value} “GB” may be GiB, as verl prints it: then it is {larger}, still more than the device. Only GB of a "
    "device of {capacity} GiB ({device}) would fit.": (
        "{value} “GB” 可能是 GiB（verl 就是这样打印的）：那样就是 {larger}，仍超过设备容量。只有按 GB 理解、且设备容"
        "量为 {capacity} GiB（{device}）时才放得下。"
    ),
    "{value} “GB” may be GiB, as verl prints it: then it is {larger}. No reading of the units makes it fit.": (
        "{value} “GB” 可能是 GiB（verl 就是这样打印的）：那样就是 {larger}。无论按哪种单位理解都放不下。"
    ),
    "Contradiction: {tokens} tokens in {time} are {implied} tokens/s, but {rate} are stated.": (
        "矛盾：{time} 内 {tokens} 个 token 相当于 {implied} token/s，但所报为 {rate}。"
    ),
    "process, resident (RSS)": "进程常驻内存（RSS）",
    "device allocator, allocated": "设备分配器，已分配",
    "device allocator, reserved": "设备分配器，已保留",
    "whole run": "整次运行",
    "No memory was recorded.": "没有记录内存。",
    "capacity of the device, or of the host for a CPU": "设备容量；CPU 则为主机容量",
    "Highest value of all steps and seeds while the phase ran. GB = 10^9 bytes (1 GiB = 1.074 GB). Memory that an "
    "earlier phase left allocated counts in the later ones. What other processes hold on the device is not seen.": (
        "该阶段运行期间所有步和种子中的最高值。GB = 10^9 字节（1 GiB = 1.074 GB）。较早阶段留下未释放的内存会计入之后"
        "的阶段。其他进程在设备上占用的内存看不到。"
    ),
    "peak": "峰值",
    "{arm}: {text}": "{arm}：{text}",
}
