"""The catalogue's offline half: methods that train on given answers. Sources and deviations stand in `cards`."""

from __future__ import annotations

from paribus.algorithms.aggregate import TokenMean
from paribus.algorithms.offline import Offline, OwnLabels, OwnPairs, OwnRight
from paribus.algorithms.preference import Dpo, Hinge, Ipo, Orpo, SimPo
from paribus.algorithms.unpaired import Kto, Sft
from paribus.part import replace

DPO = Offline(name="dpo", paper="2305.18290", source=OwnPairs(), objective=Dpo(beta=0.1))
CDPO = replace(DPO, name="cdpo", paper="Mitchell 2023", objective=Dpo(beta=0.1, label_smoothing=0.1))
ROBUST_DPO = replace(
    DPO, name="robust_dpo", paper="2403.00409", objective=Dpo(beta=0.1, label_smoothing=0.1, robust=True)
)
IPO = replace(DPO, name="ipo", paper="2310.12036", objective=Ipo(beta=0.1, over="sum"))
HINGE = replace(DPO, name="hinge", paper="2309.06657, 2305.10425", objective=Hinge(beta=0.1))
KTO = Offline(
    name="kto", paper="2402.01306", source=OwnLabels(), objective=Kto(beta=0.1, desirable=1.0, undesirable=1.0)
)
ORPO = replace(DPO, name="orpo", paper="2403.07691", objective=Orpo(coef=0.1, ceiling=-1e-8))
SIMPO = replace(DPO, name="simpo", paper="2405.14734", objective=SimPo(beta=2.0, gamma=1.0, nll=0.0))
SFT = Offline(name="sft", paper="2308.01825", source=OwnRight(), objective=Sft(aggregate=TokenMean()))
ONLINE_DPO = replace(DPO, name="online_dpo", paper="2402.04792", source=OwnPairs(of="policy"))

OFFLINE: tuple[Offline, ...] = (DPO, CDPO, ROBUST_DPO, IPO, HINGE, KTO, ORPO, SIMPO, SFT, ONLINE_DPO)
