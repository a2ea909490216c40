/**
 * Tables and functions in PostgreSQL (docs/formats/postgres-state.md), and how they come to be.
 *
 * Invariants
 * - Every commit of an owner's state goes through `commit_state`, which holds that owner's advisory lock from before it looks at what was read until its
 *   transaction is over. So commits of one owner come one after the other, whichever node asks.
 * - Versions of an owner in `changes` have no holes but those of old rows at the beginning: they are counted under that lock.
 * - A commit leaves a row in `commits` in its own transaction. Whoever has lost the answer puts a row there himself: if that succeeds, the commit has not
 *   happened and never will, for its own row would be the second of that id.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Query } from './connections.ts'

/** Of the steps below. */
const VERSION = 1
const OLDEST_SERVER = 150_000
/** Of old commits, removed by one statement. */
export const TIDY_ROWS = 10_000
/** Of one commit: more are told as "anything". */
const MAX_CHANGED_KEYS = 1000
/** Of one look for changes. */
export const MAX_CHANGES = 1000
/** Of advisory locks: their first number, so that no other use of the database meets ours by chance. */
export const LOCKS = { owners: 0x73766373, migration: 0x7376636d, use: 0x73766375 }

/** @param schema checked by the config's schema: a plain name. */
const steps = (schema: string): string[] => [
  `CREATE TABLE ${schema}.state (
  owner text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (owner, key)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE TABLE ${schema}.commits (
  id uuid PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  stale int[]
);
CREATE TABLE ${schema}.changes (
  owner text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  by bytea NOT NULL,
  keys bytea[],
  PRIMARY KEY (owner, version)
);
CREATE FUNCTION ${schema}.list_digest(p_owner text, p_from bytea, p_until bytea, p_limit int) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT sha256(string_agg(int4send(length(e.key)) || e.key || sha256(e.value), ''::bytea ORDER BY e.key))
      FROM (SELECT s.key, s.value FROM ${schema}.state s WHERE s.owner = p_owner AND s.key >= p_from AND s.key < p_until ORDER BY s.key LIMIT p_limit) e
  );
END
$$;
CREATE FUNCTION ${schema}.commit_state(
  p_id uuid, p_owner text,
  g_end int[], g_tx int[], g_key bytea[], g_digest bytea[],
  l_end int[], l_tx int[], l_from bytea[], l_until bytea[], l_limit int[], l_digest bytea[],
  w_end int[], w_tx int[], w_key bytea[], w_value bytea[],
  p_by bytea, c_tx int[], c_key bytea[]
) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  v_stale int[] := '{}';
  v_found int[];
  v_key bytea;
  v_changed bytea[];
  g int := 1;
  l int := 1;
  w int := 1;
BEGIN
  PERFORM pg_advisory_xact_lock(${LOCKS.owners}, hashtext('${schema}/' || p_owner));
  FOR i IN 1 .. cardinality(w_end) LOOP
    v_found := ARRAY(
      SELECT r.tx FROM unnest(g_tx[g:g_end[i]], g_key[g:g_end[i]], g_digest[g:g_end[i]]) AS r(tx, key, digest)
       WHERE (SELECT sha256(s.value) FROM ${schema}.state s WHERE s.owner = p_owner AND s.key = r.key) IS DISTINCT FROM r.digest
      UNION
      SELECT r.tx FROM unnest(l_tx[l:l_end[i]], l_from[l:l_end[i]], l_until[l:l_end[i]], l_limit[l:l_end[i]], l_digest[l:l_end[i]])
               AS r(tx, "from", until, "limit", digest)
       WHERE ${schema}.list_digest(p_owner, r."from", r.until, r."limit") IS DISTINCT FROM r.digest
    );
    INSERT INTO ${schema}.state AS s (owner, key, value)
      SELECT p_owner, r.key, r.value FROM unnest(w_tx[w:w_end[i]], w_key[w:w_end[i]], w_value[w:w_end[i]]) AS r(tx, key, value)
       WHERE r.value IS NOT NULL AND r.tx <> ALL (v_found)
      ON CONFLICT (owner, key) DO UPDATE SET value = EXCLUDED.value WHERE s.value IS DISTINCT FROM EXCLUDED.value;
    FOR v_key IN
      SELECT r.key FROM unnest(w_tx[w:w_end[i]], w_key[w:w_end[i]], w_value[w:w_end[i]]) AS r(tx, key, value) WHERE r.value IS NULL AND r.tx <> ALL (v_found)
    LOOP
      DELETE FROM ${schema}.state s WHERE s.owner = p_owner AND s.key = v_key;
    END LOOP;
    v_stale := v_stale || v_found;
    g := g_end[i] + 1;
    l := l_end[i] + 1;
    w := w_end[i] + 1;
  END LOOP;
  v_changed := ARRAY(SELECT DISTINCT r.key FROM unnest(c_tx, c_key) AS r(tx, key) WHERE r.tx <> ALL (v_stale));
  IF cardinality(v_changed) > 0 THEN
    INSERT INTO ${schema}.changes (owner, version, by, keys) VALUES (
      p_owner, coalesce((SELECT max(c.version) FROM ${schema}.changes c WHERE c.owner = p_owner), 0) + 1, p_by,
      CASE WHEN cardinality(v_changed) <= ${MAX_CHANGED_KEYS} THEN v_changed END
    );
  END IF;
  INSERT INTO ${schema}.commits (id, stale) VALUES (p_id, v_stale);
  RETURN v_stale;
END
$$;`,
]

export interface Statements {
  get: string
  list: string
  /** Whether what was read is another now. */
  isStale: string
  commit: string
  giveUp: string
  outcome: string
  /** Of PostgreSQL, seconds since the Unix epoch. */
  time: string
  /** Old rows of `commits`, by their id, which has the clock of who made it, and by that of PostgreSQL. */
  tidy: string
  /** Old rows of `changes`, but never the newest of an owner: the next one counts on from it. */
  tidyChanges: string
  /** Of owners, the newest. */
  versions: string
  /** What came after what is known of owners. */
  changes: string
  owners: string
}

export function statementsOf(schema: string): Statements {
  return {
    get: `SELECT key, value FROM ${schema}.state WHERE owner = $1 AND key = ANY ($2::bytea[])`,
    list: `SELECT key, value FROM ${schema}.state WHERE owner = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4`,
    isStale: `SELECT EXISTS (
  SELECT FROM unnest($2::bytea[], $3::bytea[]) AS r(key, digest)
   WHERE (SELECT sha256(s.value) FROM ${schema}.state s WHERE s.owner = $1 AND s.key = r.key) IS DISTINCT FROM r.digest
) OR EXISTS (
  SELECT FROM unnest($4::bytea[], $5::bytea[], $6::int[], $7::bytea[]) AS r("from", until, "limit", digest)
   WHERE ${schema}.list_digest($1, r."from", r.until, r."limit") IS DISTINCT FROM r.digest
) AS stale`,
    commit: `SELECT ${schema}.commit_state($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS stale`,
    giveUp: `INSERT INTO ${schema}.commits (id) VALUES ($1) ON CONFLICT DO NOTHING`,
    outcome: `SELECT stale FROM ${schema}.commits WHERE id = $1`,
    time: 'SELECT extract(epoch FROM clock_timestamp())::float8 AS now',
    tidy: `DELETE FROM ${schema}.commits WHERE id IN (SELECT id FROM ${schema}.commits WHERE id < $1 AND at < to_timestamp($2) ORDER BY id LIMIT ${TIDY_ROWS} FOR UPDATE SKIP LOCKED)`,
    tidyChanges: `DELETE FROM ${schema}.changes c WHERE c.at < to_timestamp($1) AND EXISTS (SELECT FROM ${schema}.changes n WHERE n.owner = c.owner AND n.version > c.version)`,
    versions: `SELECT o.owner, (SELECT max(c.version) FROM ${schema}.changes c WHERE c.owner = o.owner)::float8 AS version FROM unnest($1::text[]) AS o(owner)`,
    changes: `SELECT c.owner, c.version::float8 AS version, c.by, c.keys
  FROM unnest($1::text[], $2::bigint[]) AS k(owner, version) JOIN ${schema}.changes c ON c.owner = k.owner AND c.version > k.version
 ORDER BY c.owner, c.version LIMIT ${MAX_CHANGES}`,
    owners: `WITH RECURSIVE o AS (
  (SELECT owner FROM ${schema}.state ORDER BY owner LIMIT 1)
  UNION ALL
  SELECT (SELECT s.owner FROM ${schema}.state s WHERE s.owner > o.owner ORDER BY s.owner LIMIT 1) FROM o WHERE o.owner IS NOT NULL
) SELECT owner FROM o WHERE owner IS NOT NULL`,
  }
}

/** Whether there is something to be read. @throws CONFIG_ERROR for tables of another version. */
export async function isThere(query: Query, schema: string): Promise<boolean> {
  const version = await versionOf(query, schema)
  if (version !== 0 && version < VERSION)
    throw new SvcError('CONFIG_ERROR', `cannot read schema "${schema}": its tables are of version ${version}, this svc reads ${VERSION}; start a server first`)
  return version === VERSION
}

/** Makes what is missing, one node at a time, all of it or nothing. @throws CONFIG_ERROR that says what an administrator has to do. */
export async function migrate(query: Query, schema: string): Promise<void> {
  const { rows } = await query<{ version: number }>(`SELECT current_setting('server_version_num')::int AS version`)
  if (rows[0].version < OLDEST_SERVER)
    throw new SvcError('CONFIG_ERROR', `cannot keep state in PostgreSQL ${Math.floor(rows[0].version / 10_000)}: svc needs version 15 or later; upgrade it`)
  if ((await versionOf(query, schema)) === VERSION) return
  // Before the transaction begins: one that has waited within it would look up names as they were before.
  await query(`SELECT pg_advisory_lock(${LOCKS.migration}, hashtext($1))`, [schema])
  try {
    await makeTables(query, schema)
  } finally {
    await query(`SELECT pg_advisory_unlock(${LOCKS.migration}, hashtext($1))`, [schema]).catch(() => {})
  }
}

async function makeTables(query: Query, schema: string): Promise<void> {
  await query('BEGIN')
  try {
    const found = await versionOf(query, schema)
    if (found === 0) {
      await query(`CREATE SCHEMA IF NOT EXISTS ${schema}`)
      await query(`CREATE TABLE ${schema}.meta (name text PRIMARY KEY, value text NOT NULL)`)
    }
    for (const step of steps(schema).slice(found)) await query(step)
    await query(`INSERT INTO ${schema}.meta VALUES ('version', $1) ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`, [String(VERSION)])
    await query('COMMIT')
  } catch (error) {
    await query('ROLLBACK').catch(() => {})
    if ((error as { code?: string }).code === '42501')
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot make the tables of schema "${schema}": ${(error as Error).message}; as its administrator run CREATE SCHEMA ${schema} AUTHORIZATION <user of state.url>`,
        { cause: error },
      )
    throw error
  }
}

/** 0 = nothing is there. */
async function versionOf(query: Query, schema: string): Promise<number> {
  const { rows } = await query<{ there: boolean }>('SELECT to_regclass($1) IS NOT NULL AS there', [`${schema}.meta`])
  if (!rows[0].there) return 0
  const version = Number((await query<{ value: string }>(`SELECT value FROM ${schema}.meta WHERE name = 'version'`)).rows[0]?.value ?? 0)
  if (version > VERSION)
    throw new SvcError('CONFIG_ERROR', `cannot use schema "${schema}": its tables are of version ${version}, this svc knows ${VERSION}; start a newer svc`)
  return version
}
