"""The role of a flag, read from its name, and the value that makes a run tiny."""

from __future__ import annotations

import re

from leasehold.lifecycle.init.text.project_facts import Flag, Role, Style

_NAMES = {
    Role.OUTPUT: (
        "output_dir out_dir outdir output_directory output_folder output_path output out save_dir savedir save_folder "
        "save_path work_dir workdir checkpoint_dir ckpt_dir checkpoints_dir save_directory results_dir "
        "result_dir exp_dir run_dir default_root_dir log_dir logdir logging_dir tensorboard_dir"
    ),
    Role.STEPS: (
        "max_steps max_train_steps num_train_steps num_steps n_steps train_steps total_steps steps max_iters num_iters "
        "max_iter num_iterations n_iters iterations iters total_timesteps num_updates max_updates max_update"
    ),
    Role.EPOCHS: "epochs num_epochs n_epochs max_epochs num_train_epochs train_epochs nepochs nb_epochs epoch",
    Role.LIMIT: (
        "max_train_samples limit_train_batches fast_dev_run dry_run smoke_test smoke max_samples overfit_batches"
    ),
    Role.EVAL_LIMIT: (
        "eval_iters limit_val_batches limit_test_batches max_eval_samples max_eval_steps eval_batches val_batches"
    ),
    Role.INTERVAL: (
        "save_steps save_every save_interval save_freq save_every_n_steps save_every_steps checkpointing_steps "
        "checkpoint_interval checkpoint_every checkpoint_freq ckpt_interval ckpt_every ckpt_freq save_every_n_epochs "
        "save_epochs save_epoch_freq eval_interval eval_every eval_freq eval_steps val_interval val_every val_freq "
        "val_check_interval every_n_train_steps every_n_epochs check_val_every_n_epoch snapshot_interval snapshot_freq"
    ),
    Role.LOGGING: (
        "log_interval log_every log_freq log_frequency log_steps logging_steps log_every_n_steps print_freq "
        "print_every print_interval logging_interval"
    ),
    Role.COMPILE: "compile torch_compile use_compile compile_model",
    Role.BATCH: (
        "batch_size per_device_train_batch_size train_batch_size micro_batch_size device_batch_size batchsize bs "
        "batch_size_per_gpu global_batch_size"
    ),
    Role.WORKERS: "num_workers workers n_workers nworkers dataloader_num_workers num_data_workers data_workers",
    Role.DEVICE: "device accelerator no_cuda use_cpu cpu no_gpu",
    Role.RESUME: (
        "resume resume_from resume_from_checkpoint resume_path auto_resume ckpt_path load_checkpoint restore init_from "
        "resume_checkpoint load_from"
    ),
    Role.SEED: "seed random_seed manual_seed",
    Role.DATA: (
        "data_dir data data_path data_root dataset dataset_name dataset_path dataset_dir datadir train_file train_data "
        "data_folder root train_path"
    ),
    Role.CONFIG: "config cfg config_file config_path conf",
}
_TIMES = r"(?:_n)?(?:_(?:train_)?(?:steps?|iters?|iterations?|epochs?|updates?|batches))?"
_SAVES = r"(?:sav(?:e|ing)|ckpts?|checkpoints?|checkpointing|snapshots?)"
_PARTS = r"(?:training|train|from|path|file|ckpt|checkpoint|state)"
_SPELLINGS = (  # for names that match none of the above
    (Role.RESUME, re.compile(rf"(?:auto_)?(?:resume|restore|continue)(?:_{_PARTS})*|(?:ckpt|checkpoint)_to_resume")),
    (
        Role.INTERVAL,
        re.compile(
            rf"(?:{_SAVES}|eval|evaluation|val|validation)_(?:every|interval|freq|frequency|period)(?:{_TIMES})"
            rf"|{_SAVES}_(?:steps|iters|iterations|updates)"
        ),
    ),
    (Role.STEPS, re.compile(r"(?:(?:max|num|n|total)_)?(?:train_|training_|global_|optim(?:izer)?_)?"
                            r"(?:steps|iters|iterations|updates)")),
    (Role.EPOCHS, re.compile(r"(?:(?:max|num|n|total)_)?(?:train_|training_)?epochs")),
    (Role.BATCH, re.compile(r"(?!\w*(?:eval|val|test))(?:\w+_)?batch_size|minibatch_size")),
    (
        Role.OUTPUT,
        re.compile(
            r"(?:out|outputs?|save|logs?|work|exp|experiments?|results?|runs?|saved?_models?)_(?:dir|root|folder|directory)"
            r"|(?:ckpts?|checkpoints?)_(?:root|folder|directory)"
        ),
    ),
)  # fmt: skip
_ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
_RANKS = {name: rank for names in _NAMES.values() for rank, name in enumerate(names.split())}
_FILE = re.compile(r"[^/]+\.[A-Za-z][A-Za-z0-9]{0,11}\Z")


def role_of(name: str) -> Role:
    """Return a flag's role, read from its name."""
    bare = _bare(name)
    return _ROLES.get(bare) or next((role for role, spelled in _SPELLINGS if spelled.fullmatch(bare)), Role.OTHER)


def rank_of(flag: Flag) -> int:
    """Order flags of one role: the plainest name first."""
    return _RANKS.get(_bare(flag.name), 999)


def names_a_file(flag: Flag) -> bool:
    """Return whether an output flag takes a file rather than a folder."""
    return bool(_FILE.search(flag.default)) and not flag.default.endswith("/")


def tiny_value(flag: Flag, by_steps: bool = True) -> str | None:
    """Return the value that makes a run small; nothing where no value would."""
    name = _bare(flag.name)
    match flag.role:
        case Role.STEPS:
            return "3"
        case Role.EPOCHS:
            return "1"
        case Role.BATCH:
            return "2"
        case Role.WORKERS:
            return "0"
        case Role.LIMIT:
            return {"fast_dev_run": "true", "limit_train_batches": "3"}.get(name, "8")
        case Role.EVAL_LIMIT:
            return "2"
        case Role.INTERVAL:
            return "2" if by_steps or re.search("step|iter|update", name) else "1"
        case Role.LOGGING:
            return "1" if flag.default.isdigit() and int(flag.default) > 1 else None
        case Role.COMPILE:
            on = flag.default.lower() == "true" and flag.style is not Style.SWITCH
            return ("False" if flag.style is Style.JOINED else "false") if on else None
        case Role.DEVICE:
            if flag.style is Style.SWITCH:
                return ""
            return "cpu" if name in ("device", "accelerator") else None
        case _:
            return None


def _bare(name: str) -> str:
    return name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
