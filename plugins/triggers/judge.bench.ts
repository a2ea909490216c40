/**
 * What triggers cost beside ingest: rows of a write are judged as a change cursor hands them over. Also what the whole server takes, with and without.
 * node plugins/triggers/judge.bench.ts
 */
import { performance } from 'node:perf_hooks'
import { type FieldInfo, TableBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { boot } from 'svcdb/testkit'
import { Scratch } from './evaluate/scratch.ts'
import { FactsBudget } from './evaluate/series-facts.ts'
import { type Changed, judge } from './judge.ts'
import { parseStatement } from './statement/parse.ts'
import { nothingPending, Tenant } from './tenant.ts'
import { made } from './trigger.ts'

const LIMITS = { maxBytes: 100_000, maxComparisons: 100, maxDepth: 20, maxChannels: 5 }
const ROWS = 10_000
const HOSTS = 1000
const print = (line: string): void => void process.stdout.write(`${line}\n`)

function tenantOf(conditions: readonly string[], measurement = (i: number): string => `m${i % 1}`): Tenant {
  const tenant = new Tenant('', { scratch: new Scratch(), facts: new FactsBudget() }, () => 1e6, 10)
  for (const [i, condition] of conditions.entries()) {
    const statement = parseStatement(`CREATE TRIGGER t${i} ON ${measurement(i)} WHEN ${condition}`, LIMITS)
    if (statement.kind !== 'create') throw new Error('no trigger')
    tenant.add(
      made(statement, { id: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`, cooldown: '300000000000', enabled: true, after: '', created_at: 0 }),
    )
  }
  return tenant
}

function changeOf(measurement: string, rows: number, start: bigint): Changed {
  const table = new TableBatch(null)
  for (let row = 0; row < rows; row++) {
    const time = start + BigInt(row) * 1_000_000n
    table.addRow(row % HOSTS, Number(BigInt.asIntN(32, time)), Number(time >> 32n), row)
    table.column('usage', 'float64').setF64(row, (row * 7919) % 100)
    table.column('load', 'float64').setF64(row, (row % 64) / 8)
    table.column('requests', 'int64').setPair(row, row % 5000, 0)
  }
  const fields: FieldInfo[] = table.columns.map(({ name, type }) => ({ name, type }))
  const tagsOf = (series: number) => ({ host: `h${series}`, zone: `z${series % 4}` })
  return {
    rows,
    series: table.series,
    times: table.time,
    fields,
    columns: table.columns,
    heap: new Uint8Array(0),
    tagsOf,
    measurement,
    position: 'b',
    backfill: false,
  }
}

/** Nanoseconds a row. */
function measure(name: string, tenant: Tenant, measurement = 'm0'): void {
  const options = { thresholds: { warning: 0.5, critical: 0.8 }, tagBytes: 4096, counts: { silent: 0, forgotten: 0 } }
  const watch = atOnce(tenant.watch(measurement))
  if (watch === undefined) throw new Error('no watch')
  const changes = Array.from({ length: 20 }, (_, i) => changeOf(measurement, ROWS, 1_700_000_000_000_000_000n + BigInt(i) * 10_000_000_000n))
  let fired = 0
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 8; round++) {
    const began = performance.now()
    for (const change of changes) {
      for (let row = 0; row < change.rows; ) {
        const pending = nothingPending()
        row = atOnce(judge(tenant, watch, change, row, pending, options))
        fired += pending.signals.length
      }
    }
    best = Math.min(best, performance.now() - began)
  }
  print(`${name.padEnd(64)} ${((best * 1e6) / (ROWS * changes.length)).toFixed(1).padStart(8)} ns a row, ${fired} signals`)
}

const hundred = Array.from({ length: 100 }, (_, i) => i)
measure('1 trigger that does not hold', tenantOf(['usage > 1000']))
measure('100 triggers that do not hold', tenantOf(hundred.map((i) => `usage > ${1000 + i}`)))
measure('100 triggers, each of 1 % of rows', tenantOf(hundred.map((i) => `usage >= ${98 + i / 100}`)))
measure('100 triggers on tags, of 1 % of rows', tenantOf(hundred.map((i) => `host = 'h${i * 7}' AND usage >= 98`)))
measure('100 triggers of three comparisons', tenantOf(hundred.map((i) => `usage >= ${90 + i / 10} AND load > 4 AND requests > ${i * 40}`)))
measure('100 triggers of OR', tenantOf(hundred.map((i) => `usage > ${99 + i / 1000} OR load > ${7.8 + i / 1000}`)))
measure('100 triggers that hold for every row', tenantOf(hundred.map((i) => `usage >= -${i}`)))
const thousand = tenantOf(
  Array.from({ length: 10_000 }, (_, i) => `usage > ${1000 + i}`),
  (i) => `m${i % 1000}`,
)
measure('10,000 triggers over 1,000 measurements, one of them written', thousand, 'm7')

/** Rows a second over HTTP, the embedded engine, one connection. */
async function ingest(triggers: number): Promise<number> {
  const node = await boot({ plugins: ['line_protocol', 'triggers'], storage: 'embedded', config: { triggers: {} } })
  try {
    for (let i = 0; i < triggers; i++) {
      const payload = { query: `CREATE TRIGGER t${i} ON cpu WHEN usage > ${99 + i / 1000} AND load > 4` }
      const answer = await node.inject({ method: 'POST', url: '/api/v1/triggers', payload })
      if (answer.statusCode !== 200) throw new Error(answer.body)
    }
    const now = BigInt(Date.now()) * 1_000_000n
    let time = now - 3_000_000_000_000n
    const body = (): string =>
      Array.from(
        { length: ROWS },
        (_, i) => `cpu,host=h${i % HOSTS},zone=z${i % 4} usage=${(i * 7919) % 100},load=${(i % 64) / 8},requests=${i % 5000}i ${(time += 1_000_000n)}`,
      ).join('\n')
    const bodies = Array.from({ length: 120 }, body)
    const write = async (payload: string): Promise<void> => {
      const answer = await fetch(`${node.url}/write`, { method: 'POST', body: payload, headers: { 'content-type': 'text/plain' } })
      if (answer.status !== 204) throw new Error(await answer.text())
    }
    for (const payload of bodies.slice(0, 20)) await write(payload)
    const began = performance.now()
    for (const payload of bodies.slice(20)) await write(payload)
    return (100 * ROWS) / ((performance.now() - began) / 1000)
  } finally {
    await node.stop()
  }
}

const [without, with100] = [[] as number[], [] as number[]]
// The first one warms the process up.
await ingest(100)
for (let round = 0; round < 4; round++) {
  without.push(await ingest(0))
  with100.push(await ingest(100))
}
const best = (list: readonly number[]): number => Math.max(...list)
print(
  `ingest without triggers ${Math.round(best(without))} rows/s, with 100 on the measurement ${Math.round(best(with100))} rows/s: ${(100 - (100 * best(with100)) / best(without)).toFixed(1)} % less`,
)
