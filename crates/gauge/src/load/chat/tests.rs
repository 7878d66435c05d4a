use super::*;

fn words(operation: &Operation) -> Vec<usize> {
    let Some(Source::List { values, .. }) = operation.params.get("prompt") else { panic!("{operation:?}") };
    values.iter().map(|prompt| prompt.split(' ').count()).collect()
}

#[test]
fn prompts_are_spread_over_their_range() {
    let chat = Chat { prompt: Words::Range(10, 73), ..Chat::of("m") };
    let operations = chat.operations(1).expect("it makes sense");
    assert_eq!(words(&operations[0]), (10..=73).collect::<Vec<_>>());
    assert_eq!(operations, chat.operations(1).expect("it makes sense"), "the same seed, the same calls");
    assert_ne!(operations, chat.operations(2).expect("it makes sense"));
    let fixed = Chat { prompt: Words::Fixed(5), ..Chat::of("m") }.operations(1).expect("it makes sense");
    assert!(words(&fixed[0]).iter().all(|words| *words == 5));
}

#[test]
fn a_shared_prefix_is_an_operation_with_its_share() {
    let chat = Chat { shared: Some(Shared { share: 0.25, words: 300 }), ..Chat::of("m") };
    let [plain, shared] = &chat.operations(1).expect("it makes sense")[..] else { panic!("two operations") };
    assert_eq!((plain.weight, shared.weight), (0.75, 0.25));
    let (Some(Body::Text(plain)), Some(Body::Text(shared))) = (&plain.body, &shared.body) else { panic!("bodies") };
    assert_eq!(shared.split(' ').count(), plain.split(' ').count() + 300);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let wrong = [
        Chat { prompt: Words::Fixed(0), ..Chat::of("m") },
        Chat { output: Words::Range(9, 8), ..Chat::of("m") },
        Chat { prompt: Words::Fixed(MOST_WORDS + 1), ..Chat::of("m") },
        Chat { shared: Some(Shared { share: 1.5, words: 3 }), ..Chat::of("m") },
        Chat { shared: Some(Shared { share: f64::NAN, words: 3 }), ..Chat::of("m") },
        Chat { shared: Some(Shared { share: 0.5, words: 0 }), ..Chat::of("m") },
        Chat { stream: false, slo: Some(Slo::default()), ..Chat::of("m") },
        Chat::of(""),
        Chat::of("{prompt}"),
    ];
    for chat in wrong {
        assert!(chat.operations(1).is_err(), "{chat:?}");
    }
    assert_eq!("7..9".parse(), Ok(Words::Range(7, 9)));
    assert_eq!("7".parse(), Ok(Words::Fixed(7)));
    assert!("7..".parse::<Words>().is_err() && "a".parse::<Words>().is_err());
}
