/** What docs/formats/postgres-state.md has is what the code computes and makes. */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import t from 'tap'
import { COPYING, MOVED, MOVED_FROM } from '../../kernel/storage/state-engine.ts'
import { listDigest } from '../../storage/postgres/digest.ts'
import { LOCKS, migrate } from '../../storage/postgres/tables.ts'
import { NO_POSTGRES, postgresBin, startPostgres, type TestPostgres } from '../support/postgres.ts'

const page = readFileSync(new URL('../../docs/formats/postgres-state.md', import.meta.url), 'utf8')

t.test('the digest of a list', async (t) => {
  const { rows, sha256 } = JSON.parse(/```json digest\n([^`]*)```/.exec(page)?.[1] ?? '') as { rows: [string, string][]; sha256: string }
  t.equal(listDigest(rows.map(([key, text]) => ({ key, text })))?.toString('hex'), sha256)
  t.equal(listDigest([]), null)
})

t.test('the advisory locks', async (t) => {
  const named = [...page.matchAll(/advisory lock \((\d+),/g)].map(([, number]) => Number(number))
  t.same(named.sort(), Object.values(LOCKS).sort())
})

t.test('the marks', async (t) => {
  const listed = [...page.slice(page.indexOf('## Marks')).matchAll(/^\| `([^`]+)` \|/gm)].map(([, key]) => key)
  t.same(listed.sort(), [COPYING, MOVED, MOVED_FROM].sort())
})

t.test('the tables', { skip: postgresBin() === undefined ? NO_POSTGRES : false, timeout: 120_000 }, async (t) => {
  const postgres = (await startPostgres()) as TestPostgres
  t.teardown(() => postgres.stop())
  const client = new pg.Client({ connectionString: await postgres.database() })
  await client.connect()
  await migrate((text, values) => client.query(text as string, values as unknown[]) as never, 'svc')
  const { rows } = await client.query<{ name: string; column: string }>(`SELECT c.relname AS name, a.attname || ' ' || format_type(a.atttypid, NULL)
      || CASE WHEN a.attcollation <> y.typcollation THEN ' COLLATE "' || l.collname || '"' ELSE '' END AS column
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE c.relnamespace = 'svc'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum`)
  await client.end()
  const short = (type: string): string => type.replace('timestamp with time zone', 'timestamptz').replace('integer', 'int')
  const made = rows.map(({ name, column }) => `${name}: ${short(column)}`)
  let table = ''
  const listed = [...page.matchAll(/^\| (?:`(\w+)`)? ?\| (`[^|]+`) \| /gm)].flatMap(([, name, columns]) => {
    table = name ?? table
    return columns.split(', ').map((column) => `${table}: ${column.replaceAll('`', '')}`)
  })
  t.same(listed.sort(), made.sort())
})
