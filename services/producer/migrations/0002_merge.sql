-- Shallow merge over rows, the later row winning: what an event that names one entity twice means.
-- jsonb_concat is the function behind the operator ||.
CREATE OR REPLACE AGGREGATE car_entities_merge(jsonb) (
    SFUNC = jsonb_concat,
    STYPE = jsonb,
    INITCOND = '{}'
);
