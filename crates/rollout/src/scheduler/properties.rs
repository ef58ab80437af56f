//! Random crowds through the scheduler.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn capacity(tokens: usize, block_tokens: usize) -> Capacity {
    Capacity {
        total_tokens: tokens,
        free_tokens: tokens,
        block_tokens,
        shares_prefixes: true,
        longest_tokens: 4096,
        most_running: 64,
    }
}

fn applicant(task: usize, prompt_tokens: usize) -> Applicant {
    Applicant { task, prompt_tokens }
}

#[test]
fn samples_of_a_task_share_the_room_of_its_prompt() {
    let mut scheduler = Scheduler::new(&capacity(512, 32), 64, 0);
    // 96 tokens of the prompt are shared; 4 more and 64 of the response take 3 blocks each.
    for _ in 0..4 {
        assert!(scheduler.admit(applicant(0, 100)).is_some());
    }
    assert_eq!(scheduler.reserved_tokens, 96 + 4 * 96);
    assert!(scheduler.admit(applicant(0, 100)).is_none());
}

#[test]
fn room_is_given_away_at_once_and_lengths_are_learned() {
    let mut scheduler = Scheduler::new(&capacity(1000, 1), 400, 0);
    let mut seats: Vec<Seat> = Vec::new();
    for round in 0..FEWEST_LESSONS {
        while let Some(seat) = scheduler.admit(applicant(round, 10)) {
            seats.push(seat);
        }
        assert_eq!(seats.len(), 2);
        scheduler.grow(seats[0], 40);
        scheduler.release(seats.remove(0), true);
    }
    // Each ended after 40 tokens: 51 are expected of the next.
    while let Some(seat) = scheduler.admit(applicant(99, 10)) {
        seats.push(seat);
    }
    assert!(seats.len() > 10, "{}", seats.len());
    // One that outlives all that is known may become as long as any.
    let before = scheduler.reserved_tokens;
    scheduler.grow(seats[1], 60);
    assert!(scheduler.reserved_tokens > before + 300);
    // So may others: what they would need is more than there is, and what they hold is all of it.
    (2..9).for_each(|index| scheduler.grow(seats[index], 60));
    assert!(scheduler.reserved_tokens > 1000);
    assert_eq!(scheduler.most_reserved_tokens(), 1000);
}

#[test]
fn who_waits_for_a_tool_leaves_its_place_in_the_batch() {
    let capacity = Capacity { most_running: 1, ..capacity(1000, 1) };
    let mut scheduler = Scheduler::new(&capacity, 100, 0);
    let first = scheduler.admit(applicant(0, 10)).expect("a seat");
    assert!(scheduler.admit(applicant(1, 10)).is_none());
    scheduler.set_generates(first, false);
    assert!(scheduler.admit(applicant(1, 10)).is_some());
    let mut few = Scheduler::new(&capacity, 100, 1);
    let first = few.admit(applicant(0, 10)).expect("a seat");
    few.set_generates(first, false);
    assert!(few.admit(applicant(1, 10)).is_none(), "`most_seats` counts all");
}

/// What may happen to the oldest, or any, of the seats.
#[derive(Debug, Clone, Copy)]
enum Step {
    Admit { task: usize },
    Grow { seat: usize, tokens: usize },
    Wait { seat: usize, generates: bool },
    Release { seat: usize, ended: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..6).prop_map(|task| Step::Admit { task }),
        4 => (0_usize..40, 0_usize..60).prop_map(|(seat, tokens)| Step::Grow { seat, tokens }),
        1 => (0_usize..40, any::<bool>())
            .prop_map(|(seat, generates)| Step::Wait { seat, generates }),
        2 => (0_usize..40, any::<bool>()).prop_map(|(seat, ended)| Step::Release { seat, ended }),
    ]
}

proptest! {
    /// The books add up, admission never goes over the budget but for a single seat, and an empty
    /// house always lets one in.
    #[test]
    fn the_books_add_up(
        steps in prop::collection::vec(step(), 0..200),
        tokens in 1_usize..3000,
        block in 1_usize..40,
        response in 1_usize..300,
    ) {
        let mut scheduler = Scheduler::new(&capacity(tokens, block), response, 0);
        let mut seats: Vec<(Seat, usize)> = Vec::new();
        for step in steps {
            let before = scheduler.reserved_tokens;
            match step {
                Step::Admit { task } => {
                    let admitted = scheduler.admit(applicant(task, 1 + 37 * task));
                    prop_assert!(admitted.is_some() || !seats.is_empty());
                    prop_assert!(
                        admitted.is_none() || scheduler.reserved_tokens <= tokens || seats.is_empty()
                    );
                    prop_assert!(admitted.is_some() || scheduler.reserved_tokens == before);
                    seats.extend(admitted.map(|seat| (seat, 0)));
                }
                Step::Grow { seat, tokens } if !seats.is_empty() => {
                    let at = seat % seats.len();
                    seats[at].1 = (seats[at].1 + tokens).min(response);
                    scheduler.grow(seats[at].0, seats[at].1);
                }
                Step::Wait { seat, generates } if !seats.is_empty() => {
                    scheduler.set_generates(seats[seat % seats.len()].0, generates);
                }
                Step::Release { seat, ended } if !seats.is_empty() => {
                    let (seat, _) = seats.remove(seat % seats.len());
                    scheduler.release(seat, ended);
                }
                _ => {}
            }
            prop_assert!(scheduler.most_reserved_tokens() <= tokens);
            let held: usize = scheduler.seats.values().map(|taken| taken.held_tokens).sum();
            let shared: usize = scheduler.prompts.values().map(|(_, shared)| shared).sum();
            prop_assert_eq!(scheduler.reserved_tokens, held + shared);
            for taken in scheduler.seats.values() {
                let own = scheduler.own_tokens(&taken.applicant, taken.response_tokens);
                prop_assert!(taken.held_tokens >= own, "nobody holds less than it uses");
            }
        }
        for (seat, _) in seats {
            scheduler.release(seat, true);
        }
        prop_assert_eq!(scheduler.reserved_tokens, 0);
    }
}
