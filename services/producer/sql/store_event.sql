INSERT INTO car_entities AS stored (entity_type, id, data)
SELECT entity_type, id, car_entities_merge(data::jsonb ORDER BY position)
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS entity (entity_type, id, data, position)
GROUP BY entity_type, id
ORDER BY entity_type, id
ON CONFLICT (entity_type, id) DO UPDATE
SET data = stored.data || EXCLUDED.data, updated_at = now()
