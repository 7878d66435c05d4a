-- The one table of the event-ingestion services. Every statement here may be run again at any time and drops no data.
CREATE TABLE IF NOT EXISTS car_entities (
    id          varchar(255) NOT NULL,
    entity_type varchar(255) NOT NULL,
    created_at  timestamptz  NOT NULL DEFAULT now(),
    updated_at  timestamptz  NOT NULL DEFAULT now(),
    data        jsonb        NOT NULL DEFAULT '{}',
    PRIMARY KEY (entity_type, id)
);

-- A table that an earlier implementation made may be keyed by id alone and know no defaults. Its rows stay; only the key
-- is widened, because a Car and a Loan may share an id.
DO $$
DECLARE
    narrow_key name;
BEGIN
    SELECT conname INTO narrow_key
    FROM pg_constraint
    WHERE conrelid = 'car_entities'::regclass AND contype = 'p' AND cardinality(conkey) = 1;
    IF narrow_key IS NOT NULL THEN
        EXECUTE format('ALTER TABLE car_entities DROP CONSTRAINT %I, ADD PRIMARY KEY (entity_type, id)', narrow_key);
        ALTER TABLE car_entities ALTER created_at SET DEFAULT now(), ALTER updated_at SET DEFAULT now();
    END IF;
END
$$;
