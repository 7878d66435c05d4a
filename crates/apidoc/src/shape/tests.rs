use super::Shape;
use crate::model::Type;

fn between(min: i64, max: i64, exclusive: bool) -> Shape<u8> {
    Shape {
        kind: Type::Integer,
        min: Some(min.into()),
        max: Some(max.into()),
        exclusive_min: exclusive,
        exclusive_max: exclusive,
        ..Shape::default()
    }
}

/// Of two equal bounds the exclusive one is the narrower, whichever comes first.
#[test]
fn equal_bounds_keep_the_narrower() {
    for (mut shape, other) in [(between(0, 9, false), between(0, 9, true)), (between(0, 9, true), between(0, 9, false))]
    {
        shape.and(&other);
        assert_eq!(shape.bounds(), (Some(1.into()), Some(8.into())));
    }
    let mut shape = between(0, 9, true);
    shape.and(&between(2, 7, false));
    assert_eq!(shape.bounds(), (Some(2.into()), Some(7.into())), "narrower by itself");
}
