import hydra
import lightning as L
from lightning.pytorch.loggers import CSVLogger
from omegaconf import DictConfig

from src.models.net import Data


@hydra.main(version_base="1.3", config_path="../configs", config_name="train.yaml")
def main(cfg: DictConfig):
    L.seed_everything(cfg.seed)
    model = hydra.utils.instantiate(cfg.model)
    data = Data(**cfg.data)
    callbacks = [hydra.utils.instantiate(one) for one in cfg.callbacks.values()]
    logger = CSVLogger(save_dir=cfg.paths.output_dir, name="csv")
    trainer = hydra.utils.instantiate(cfg.trainer, callbacks=callbacks, logger=logger)
    trainer.fit(model=model, datamodule=data, ckpt_path=cfg.get("ckpt_path"))


if __name__ == "__main__":
    main()
