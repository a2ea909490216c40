/** Random points through one node's change cursor into lines, and with these into another node: both hand out the same. */
import { changedRows } from 'svcdb'
import { Column } from 'svcdb/lib/columns'
import { JsonBytes } from 'svcdb/lib/json'
import { type Random, seeded } from 'svcdb/lib/random'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { RowLines, seriesKey } from './index.ts'

const SEEDS = Number(process.env.SVC_SEEDS ?? 20)
const FROM = Number(process.env.SVC_SEED ?? 1)
const NAMES = ['m', 'a b', 'c,d', 'e=f', 'back\\slash', '\\', 'tail\\ ', '"q"', 'grüße', 'x\\,y', '\ud83d\ude00']
const TEXTS = ['plain', '', 'a "b" \\ c', '\\"', 'two\nlines', ',= ', '\ufeff', 'é']
const NUMBERS = ['0', '-0', '1', '-1.5', '1e21', '5e-324', '1.7976931348623157e308', '0.1', '123456789.125', '1e-7']
const WHOLE = ['0', '-1', '9223372036854775807', '-9223372036854775808', '9007199254740993', '4294967296']

const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)] as T
const escaped = (text: string): string => text.replace(/[\\, =]/g, '\\$&')

/** Lines by a writer of its own, in which each field has the type of its name. */
function lines(random: Random): string {
  const all: string[] = []
  for (let i = 0; i < 60; i++) {
    const measurement = pick(random, NAMES).replace(/[\\, ]/g, '\\$&')
    const tags = NAMES.filter(() => random() < 0.2).map((name) => `,${escaped(name)}=${escaped(pick(random, NAMES))}`)
    const values: Record<string, () => string> = {
      f: () => pick(random, NUMBERS),
      'i=': () => `${pick(random, WHOLE)}i`,
      'u ': () => `${pick(random, WHOLE).replace('-', '')}u`,
      'b,': () => pick(random, ['true', 'false']),
      's\\': () => `"${pick(random, TEXTS).replace(/["\\]/g, '\\$&')}"`,
      d: () => `${pick(random, ['-', ''])}${Math.floor(random() * 1e6)}.${Math.floor(random() * 90 + 10)}d`,
    }
    const chosen = Object.entries(values).filter(() => random() < 0.5)
    if (chosen.length === 0) continue
    const fields = chosen.map(([name, value]) => `${escaped(name)}=${value()}`).join(',')
    all.push(`${measurement}${tags.join('')} ${fields} ${pick(random, ['-', '', ''])}${Math.floor(random() * 2 ** 53)}${i}`)
  }
  return all.join('\n')
}

const write = async (node: TestNode, payload: string | Uint8Array) => {
  const answer = await node.inject({ method: 'POST', url: '/write?backfill=true', payload: Buffer.from(payload) })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

/** What a write tells, as text; and the lines of it. */
async function told(node: TestNode, payload: string | Uint8Array): Promise<{ rows: string[]; text: Uint8Array }> {
  const cursor = node.storage.changes({ kinds: ['rows'] })
  await cursor.position()
  await write(node, payload)
  const newest = node.storage.changes({ kinds: ['rows'] })
  const until = await newest.position()
  newest.close()
  const rows: string[] = []
  const out = new JsonBytes()
  const encoder = new RowLines()
  while ((await cursor.position()) < until || cursor.behind > 0) {
    const { value: change } = await cursor.next()
    if (change?.kind !== 'rows') throw new Error('rows are expected')
    for (const row of changedRows(change)) rows.push(textOf(row.measurement, row.tags, row.time, row.fields))
    encoder.begin(change)
    for (let row = 0; row < change.rows; row++) {
      if (!encoder.write(out, row)) throw new Error('a line holds all of these')
      out.raw('\n')
    }
  }
  cursor.close()
  return { rows: rows.sort(), text: out.take() }
}

const textOf = (measurement: string, tags: Record<string, string>, time: bigint, fields: readonly { name: string; type: string; value: unknown }[]): string => {
  const values = fields.map(({ name, type, value }) => [name, type, Object.is(value, -0) ? '-0' : `${value}`]).sort()
  return JSON.stringify([measurement, Object.entries(tags).sort(), `${time}`, values])
}

t.test(`lines read back as what they were made of: SVC_SEED=${FROM}`, async (t) => {
  for (let seed = FROM; seed < FROM + SEEDS; seed++) {
    const random = seeded(seed)
    const one = await boot({ plugins: ['line_protocol'] })
    const two = await boot({ plugins: ['line_protocol'] })
    const first = await told(one, lines(random))
    const second = await told(two, first.text)
    t.same(second.rows, first.rows, `seed ${seed}`)
    t.ok(first.rows.length > 0)
    await one.stop()
    await two.stop()
  }
})

t.test('what a line cannot hold is said, and nothing is written', async (t) => {
  const value = new Column('v', 'float64', 1)
  value.setF64(0, 1)
  const out = new JsonBytes()
  const written = (measurement: string, tags: Record<string, string>, fields: Record<string, Column>): boolean => {
    const encoder = new RowLines()
    const infos = Object.entries(fields).map(([name, { type }]) => ({ name, type }))
    const arrays = { times: new Int32Array(2), series: new Int32Array(1), heap: new Uint8Array(16) }
    encoder.begin({ measurement, sequence: 1, rows: 1, tagsOf: () => tags, fields: infos, columns: Object.values(fields), ...arrays })
    const result = encoder.write(out, 0)
    t.equal(out.length > 0, result && Object.keys(fields).length > 0)
    out.take()
    return result
  }
  t.equal(written('m', { a: '1' }, { v: value }), true)
  t.equal(written('m', {}, {}), true, 'a row without values has nothing to hold')
  t.equal(written('#m', {}, { v: value }), false)
  t.equal(written('m', { a: 'two\nlines' }, { v: value }), false)
  t.equal(written('m', {}, { v: value, 'two\rlines': value }), false)
  const histogram = new Column('h', 'histogram', 1)
  histogram.setPair(0, 0, 4)
  t.equal(written('m', {}, { v: value, h: histogram }), false)
  t.equal(seriesKey('a b', { z: '1', y: 'c,d' }), 'a\\ b,y=c\\,d,z=1')
})
