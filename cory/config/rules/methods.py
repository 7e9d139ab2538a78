"""Rules for single methods, games, verifiers, debates, that span several groups of settings."""

from cory.config import options
from cory.config.checks import require
from cory.config.debate import DebateConfig, MaporlConfig
from cory.config.experiment import Config
from cory.config.game import GameConfig
from cory.config.maft import MaftConfig
from cory.config.offline import OfflineConfig
from cory.config.reward import beyond_shares
from cory.config.supervised import VerifierConfig


def without_answers(config: Config) -> str:
    """That a task has no answers, for refusals, and which setting would give it some."""
    task = config.task
    return f"task={task.name} has none" + (
        f": set {task.answers_from}" if task.answers_from else ""
    )


def check_game(config: Config) -> None:
    """Rules for games that span several groups."""
    task, algorithm, evaluation = config.task, config.algorithm, config.evaluation
    plays, judged = isinstance(algorithm, OfflineConfig), config.reward.name == "game_outcome"
    game = isinstance(task, GameConfig)
    if not (plays or judged or game):
        return
    for given, key, needed in (
        (game, f"task={task.name}", "task=taboo, twenty_questions or guess_my_city"),
        (plays, f"algorithm={algorithm.name}", "algorithm=imitation or spag"),
        (judged, f"reward={config.reward.name}", "reward=game_outcome"),
    ):
        require(
            given,
            f"{key}: games need {needed}, got task={task.name}, algorithm={algorithm.name} and "
            f"reward={config.reward.name}",
        )
    require(
        config.reward.broken_rules == "ignored" or options.game(task.game).one_wins,
        f"reward.broken_rules=lose needs opponents; in task.game={task.game} both win or lose",
    )
    sampling = algorithm.sampling
    require(
        sampling.min_response_tokens == sampling.max_response_tokens,
        f"games have one limit: algorithm.sampling.min_response_tokens "
        f"({sampling.min_response_tokens}) must equal max_response_tokens "
        f"({sampling.max_response_tokens})",
    )
    require(
        not evaluation.greedy and not evaluation.team and evaluation.k == [1],
        "games are evaluated by who wins: they take evaluation.greedy=false (see "
        "algorithm.test_greedy), evaluation.team=false and evaluation.k=[1]",
    )
    require(
        not algorithm.test_greedy or evaluation.samples == 1,
        f"algorithm.test_greedy=true: of {evaluation.samples} games about a word all would be the "
        f"same; evaluation.samples must be 1",
    )


def check_verifier(config: Config, algorithm: VerifierConfig) -> None:
    """Rules for the training of a verifier that span several groups."""
    evaluation = config.evaluation
    require(
        config.task.has_answers,
        f"algorithm=verifier needs a task with answers; {without_answers(config)}",
    )
    require(
        config.reward.name == "exact_match",
        f"algorithm=verifier labels answers as reward=exact_match does; "
        f"reward={config.reward.name} would play no part",
    )
    require(
        algorithm.max_tokens > config.task.max_prompt_tokens,
        f"algorithm.max_tokens ({algorithm.max_tokens}), of question and answer, must be above "
        f"task.max_prompt_tokens ({config.task.max_prompt_tokens})",
    )
    require(
        not algorithm.requests or config.model.chat,
        f"algorithm.requests=true needs model.chat=true: model={config.model.name} does not follow "
        f"requests",
    )
    require(
        not evaluation.greedy and not evaluation.probes and evaluation.k == [1],
        "algorithm=verifier is evaluated on evaluation.samples answers to each question: it takes "
        "evaluation.greedy=false, evaluation.probes=[] and evaluation.k=[1]",
    )


def check_maft(config: Config, algorithm: MaftConfig) -> None:
    """Rules for Multiagent Finetuning that span several groups."""
    evaluation, sampling = config.evaluation, algorithm.sampling
    require(
        config.task.has_answers,
        f"algorithm=maft takes votes on answers; {without_answers(config)}",
    )
    require(
        config.reward.name == "exact_match",
        f"algorithm=maft measures answers as reward=exact_match does; reward={config.reward.name} "
        f"would play no part",
    )
    require(
        evaluation.team and evaluation.samples == 1 and evaluation.k == [1],
        "algorithm=maft is evaluated by one debate about each problem: it takes "
        "evaluation.team=true, evaluation.samples=1 and evaluation.k=[1]",
    )
    require(
        algorithm.iterations == 0 or evaluation.split == "test",
        "evaluation.split=train with algorithm=maft would measure agents on the problems that they "
        "learn from; set evaluation.split=test",
    )
    require(
        not evaluation.greedy and not evaluation.probes,
        "algorithm=maft is evaluated by debates alone: it takes evaluation.greedy=false and "
        "evaluation.probes=[]",
    )
    require(
        sampling.min_response_tokens == sampling.max_response_tokens,
        f"these debates have one limit: algorithm.sampling.min_response_tokens "
        f"({sampling.min_response_tokens}) must equal max_response_tokens "
        f"({sampling.max_response_tokens})",
    )
    require(
        not algorithm.summary or config.model.chat or algorithm.endpoint is not None,
        f"algorithm.summary=true needs model.chat=true: model={config.model.name} does not follow "
        f"requests",
    )
    require(
        not algorithm.prompts.chats_only or config.model.chat or algorithm.endpoint is not None,
        f"algorithm.prompts.chats_only=true (maft_prompts@algorithm.prompts=cooperative) needs "
        f"model.chat=true: model={config.model.name} would be shown none of these prompts",
    )
    require(
        algorithm.start == "previous" or config.init_from is None or algorithm.iterations == 0,
        f"algorithm.start=base trains from the model as it came, and would forget "
        f"init_from={config.init_from}",
    )
    require(
        algorithm.endpoint is None or config.init_from is None,
        f"init_from={config.init_from}: with algorithm.endpoint no agent of a run speaks",
    )


def check_debate(config: Config, algorithm: DebateConfig) -> None:
    """Rules for debates that span several groups."""
    known = config.task.has_answers
    shaped = algorithm if isinstance(algorithm, MaporlConfig) and algorithm.shapes else None
    right_by = shaped and shaped.bonus_from
    require(
        right_by != "ground_truth" or known,
        f"algorithm.bonus_from=ground_truth needs a task with answers; {without_answers(config)}",
    )
    beyond = beyond_shares(config.reward)
    require(
        right_by != "verifier" or beyond is None,
        f"algorithm.bonus_from=verifier counts answers as right whose score is above 0.5: it needs "
        f"scores from 0 to 1, as reward=verifier and exact_match have; got {beyond}",
    )
    require(
        algorithm.consensus is None or known,
        f"algorithm.consensus needs answers that can be compared; {without_answers(config)}",
    )
    require(
        not config.evaluation.team or known,
        f"evaluation.team=true takes votes on answers; {without_answers(config)}",
    )
    for key, model in config.models.items():
        require(
            not algorithm.verifier_feedback or model.chat,
            f"algorithm.verifier_feedback=true needs {key}.chat=true: the plain form of a debate "
            f"has no place for it",
        )
    require(
        not algorithm.verifier_feedback or config.reward.name == "verifier",
        f"algorithm.verifier_feedback=true needs reward=verifier: reward={config.reward.name} "
        f"would tell debaters the answer",
    )
    if config.partner is not None:
        require(
            algorithm.param_sharing in ("per_agent", "per_turn_agent"),
            f"algorithm.param_sharing={algorithm.param_sharing} shares a policy between debaters; "
            f"with partner={config.partner.name} they have different models: per_agent or "
            f"per_turn_agent",
        )
        require(
            algorithm.agents > 1,
            f"partner={config.partner.name} needs algorithm.agents of at least 2, got "
            f"{algorithm.agents}",
        )
        require(
            config.partner.precision == config.model.precision,
            f"partner.precision={config.partner.precision} must be model.precision="
            f"{config.model.precision}",
        )
