import { readFileSync } from 'node:fs'
import { CONNECTORS, type Connectors, definePlugin, type WriteBatch } from 'svcdb'
import { Source } from 'svcdb/lib/source'
import { boot, ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'

/** A connector that does what the test says. */
async function start(t: Test, names: string[] = ['one']) {
  const sources: Source[] = []
  const clock = new ManualClock()
  const plugin = definePlugin({
    id: 'broker',
    summary: 'Has connectors',
    stability: 'experimental',
    requires: [CONNECTORS],
    includes: ['connectors'],
    capabilities: ['points'],
    setup(svc) {
      for (const name of names) {
        const decode = (body: Uint8Array, batch: WriteBatch): void => {
          if (body.length === 0) throw new Error('empty')
          const ref = batch.resolver.measurement(batch.namespace, 'm')
          const table = batch.table(ref)
          const row = table.addRow(batch.resolver.series(ref, []), 1, 0, 0)
          table.column('v', 'float64').setF64(row, body[0])
        }
        const source = new Source(svc, { name, decode, backfill: true })
        sources.push(source)
        svc.use<Connectors>(CONNECTORS).add({ name, type: 'kafka', namespace: 'default', status: () => source.status(), lag: () => 7 })
      }
    },
  })
  const node = await boot({ plugins: [plugin], clock })
  t.teardown(() => node.stop())
  const listed = async (query = '') => (await node.inject(`/api/v1/connectors${query}`)).json()
  const up = async (name = 'one') =>
    Number(new RegExp(`svc_connector_up\\{connector="${name}",type="kafka"\\} (\\d)`).exec((await node.inject('/metrics')).body)?.[1])
  const take = async (body: Uint8Array, source = sources[0]): Promise<void> => {
    void source.take({ body, ack() {} })
    while (source.status().inFlight.messages > 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return { node, clock, sources, listed, up, take }
}

type State = 'Stopped' | 'Reconnecting' | 'Failed' | 'Idle' | 'Running'
const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8')
/** Rows of the table of the README that has this head, their cells without marks. */
const rowsBelow = (head: string): string[][] => {
  const [, rest = ''] = readme.split(`${head}\n`)
  const lines = rest.split('\n').slice(1)
  return lines.slice(0, lines.indexOf('')).map((line) => line.split('|').map((cell) => cell.replaceAll('`', '').trim()))
}
const nameOf = (status: string | { failed: string }): string => (typeof status === 'string' ? status : 'Failed')

t.test('the statuses, and each way from one to another: those of the table in the README, and no other', async (t) => {
  const refused = new Error('the broker says no')
  type Event = (source: Source, node: Awaited<ReturnType<typeof start>>) => void | Promise<void>
  const events: Record<string, Event> = {
    connected: (source) => source.connected(),
    lost: (source) => source.disconnected(undefined, 'reconnecting'),
    refused: (source) => source.disconnected(refused, 'failed'),
    message: (source, { take }) => take(new Uint8Array([1]), source),
    'left to another node': (source) => source.disconnected(undefined, 'stopped'),
    'ten seconds pass': (_, { clock }) => clock.advance(10_001),
  }
  const ways: [from: State, ...by: string[]][] = [
    ['Stopped'],
    ['Stopped', 'connected', 'message', 'left to another node'],
    ['Reconnecting', 'lost'],
    ['Reconnecting', 'connected', 'message', 'lost'],
    ['Failed', 'refused'],
    ['Failed', 'connected', 'message', 'refused'],
    ['Idle', 'connected'],
    ['Running', 'connected', 'message'],
  ]
  const cases = [...Object.keys(events), 'the server stops'].flatMap((event) => ways.map(([from, ...by]) => ({ event, from, by })))
  const started = await start(
    t,
    cases.map((_, i) => `c${i}`),
  )
  const { sources, listed, node } = started
  const shown = async (i: number) => (await listed(`?offset=${i}&limit=1`)).items[0]
  const seen = new Set<string>()
  const statuses = rowsBelow('| Status | Meaning | `svc_connector_up` |')
  const ups = new Map(statuses.map(([, status, , up]) => [status.startsWith('{') ? 'Failed' : status, Number(up)]))
  t.same([...ups.keys()].sort(), ['Failed', 'Idle', 'Reconnecting', 'Running', 'Stopped'])
  for (const [i, { event, from, by }] of cases.entries()) {
    for (const each of by) await events[each](sources[i], started)
    t.equal(nameOf((await shown(i)).status), from, `${from} by ${by.join(', ') || 'nothing'}`)
    if (event === 'the server stops') continue
    await events[event](sources[i], started)
    const { status } = await shown(i)
    const to = nameOf(status)
    if (to === 'Failed') t.match(status, { failed: 'the broker says no' })
    if (to !== from) seen.add(`${from} to ${to}`)
    t.equal(await started.up(`c${i}`), ups.get(to), `${from}, ${event}: ${to}`)
  }
  await node.stop()
  for (const [i, { event, from }] of cases.entries()) {
    t.equal(sources[i].status().status, 'stopped')
    if (event === 'the server stops' && from !== 'Stopped') seen.add(`${from} to Stopped`)
  }
  const rows = rowsBelow('| From | To | When |')
  const each = (cell: string): string[] => (cell === 'any' ? ['Reconnecting', 'Failed', 'Idle', 'Running'] : cell.split(', '))
  const told = rows.flatMap(([, from, to]) => each(from).flatMap((one) => each(to).map((two) => `${one} to ${two}`)))
  t.equal(new Set(told).size, told.length, 'each once')
  t.same([...seen].sort(), told.sort())
})

t.test('figures of a connector, as the contract has them', async (t) => {
  const { sources, listed, take } = await start(t)
  t.match(await listed(), { items: [{ name: 'one', connector_type: 'kafka', status: 'Stopped' }], total: 1, offset: 0, limit: 100 })
  sources[0].connected()
  for (const body of [[1], [2], []]) await take(new Uint8Array(body))
  t.match((await listed()).items, [{ status: 'Running', metrics: { messages_total: 3, points_total: 2, decode_errors: 1, lag: 7, throughput: Number } }])
})

t.test('the list comes in parts', async (t) => {
  const { listed, node } = await start(t, ['a', 'b', 'c'])
  const { items, ...rest } = await listed('?offset=1&limit=1')
  t.same([items.map(({ name }: { name: string }) => name), rest], [['b'], { total: 3, offset: 1, limit: 1 }])
  t.same((await listed('?offset=9')).items, [])
  t.equal((await node.inject('/api/v1/connectors?limit=-1')).statusCode, 400)
})

t.test('a name is given once', (t) => t.rejects(start(t, ['one', 'one']), { message: /cannot name two connectors "one": kafka has one; choose another name/ }))
