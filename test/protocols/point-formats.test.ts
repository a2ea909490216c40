/** Formats of points by messages: what each makes of a message, with the caches of a source and in a batch with others. */
import { setTimeout as sleep } from 'node:timers/promises'
import snappy from 'snappy'
import { definePlugin, type PointFormat, type PointMessage, type PointReader, pointFormat, pointFormats, type SvcError } from 'svcdb'
import { Source } from 'svcdb/lib/source'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { writeMetrics } from '../../plugins/otlp/testing-wire.ts'
import { type WireHistogram, writeRequest } from '../../plugins/remote_write/testing-wire.ts'

const TIME = BigInt(Date.now()) * 1_000_000n
const MS = Number(TIME / 1_000_000n)
const FORMATS = ['json', 'line_protocol', 'otlp', 'prometheus_remote_write']

async function feed(t: Test, name: string, storage: string) {
  const kept: { source?: Source<Omit<PointMessage, 'time'>>; provided?: ReadonlySet<string> } = {}
  const dead: string[] = []
  const plugin = definePlugin({
    id: 'feed',
    summary: 'Takes messages of a format',
    stability: 'beta',
    capabilities: ['points'],
    setup(svc) {
      kept.provided = svc.provided
      let reader: PointReader | undefined
      let format: PointFormat | undefined
      svc.start(() => {
        format = svc.find<PointFormat>(pointFormat(name))
        reader = format?.reader()
      })
      kept.source = new Source<Omit<PointMessage, 'time'>>(svc, {
        name: 'feed',
        nonFinite: true,
        decode: (message, batch, _, further) => (reader as PointReader).read({ ...message, time: TIME }, batch, further),
        deadLetter: (_, error: SvcError) => void dead.push(`${error.code} ${error.message}`),
      })
    },
  })
  const node = await boot({ plugins: ['line_protocol', 'native', 'remote_write', 'otlp', 'promql', plugin], storage })
  t.teardown(() => node.stop())
  t.same(pointFormats(kept.provided ?? []), FORMATS)
  const source = kept.source as Source<Omit<PointMessage, 'time'>>
  const send = async (...messages: (Omit<PointMessage, 'time' | 'body'> & { body: string | Uint8Array })[]): Promise<string[]> => {
    dead.length = 0
    for (const message of messages) {
      const body = typeof message.body === 'string' ? Buffer.from(message.body) : message.body
      void source.take({ body: { ...message, body }, bytes: body.length, ack() {} })
    }
    while (source.status().inFlight.messages > 0) await sleep(1)
    return [...dead]
  }
  const stored = async (): Promise<unknown[]> => {
    const rows: unknown[] = []
    for (const { name: measurement } of await node.storage.measurements('')) {
      for await (const { tags, times, columns } of node.storage.scan({ namespace: '', measurement })) {
        for (const [row, time] of times.entries()) {
          const fields = columns.flatMap(({ name, values, validity }) => (validity === undefined || validity[row] === 1 ? [[name, values[row]]] : []))
          rows.push([measurement, tags, time - TIME, Object.fromEntries(fields)])
        }
      }
    }
    return rows
  }
  return { send, stored }
}

for (const storage of ['memory', 'embedded']) {
  t.test(`line protocol (${storage})`, async (t) => {
    const { send, stored } = await feed(t, 'line_protocol', storage)
    t.same(
      await send({ body: 'cpu,host=a v=1' }, { body: `cpu,host=b v=2 ${TIME + 1n}\ncpu v=3`, measurement: 'unused', tags: ['site', 'x y', 'line', '1,2'] }),
      [],
    )
    t.match(await send({ body: 'cpu v=4\nnonsense\ncpu,host=c v=5' }), [/^PARTIAL_WRITE partial write: 2 points written, 1 rejected; first: line 2/])
    t.match(await send({ body: 'nonsense' }, { body: 'mem,site=a v=6', tags: ['site', 'b'] }, { body: 'mem,site=b v=7', tags: ['site', 'b'] }), [
      /^INVALID_POINT .*\(line 1/,
      /tag "site" is "a", and what the points came by says "b"/,
    ])
    t.same(await stored(), [
      ['cpu', { host: 'a' }, 0n, { v: 1 }],
      ['cpu', { host: 'b', site: 'x y', line: '1,2' }, 1n, { v: 2 }],
      ['cpu', { site: 'x y', line: '1,2' }, 0n, { v: 3 }],
      ['cpu', {}, 0n, { v: 4 }],
      ['cpu', { host: 'c' }, 0n, { v: 5 }],
      ['mem', { site: 'b' }, 0n, { v: 7 }],
    ])
  })

  t.test(`json (${storage})`, async (t) => {
    const { send, stored } = await feed(t, 'json', storage)
    const body = JSON.stringify
    t.same(
      await send(
        {
          body: body([{ measurement: 'cpu', tags: { host: 'a' }, fields: { v: 1 }, timestamp: Number(TIME) }]).replace(String(Number(TIME)), String(TIME + 2n)),
        },
        { body: body({ fields: { v: 2 } }), measurement: 'temp', tags: ['site', 'x'] },
        { body: body({ fields: { v: 3 }, tags: { host: 'a' } }), measurement: 'temp', tags: ['site', 'y'] },
        {
          body: body([
            { fields: { v: 4 }, measurement: 'own' },
            { fields: { v: 5 }, tags: { site: 'x' } },
          ]),
          measurement: 'temp2',
          tags: ['site', 'x'],
        },
      ),
      [],
    )
    t.match(
      await send(
        { body: body({ fields: { v: 6 } }) },
        { body: '{"fields"' },
        { body: body({ fields: { v: 7 }, tags: { site: 'x' } }), measurement: 'm', tags: ['site', 'y'] },
      ),
      [
        /points\[0\]: .*measurement/,
        /^INVALID_POINT cannot read body: points\[0\]/,
        /^INVALID_POINT .*points\[0\]\.tags\.site: "x" is there, and what the points came by says "y"/,
      ],
    )
    t.same(await stored(), [
      ['cpu', { host: 'a' }, 2n, { v: 1 }],
      ['own', { site: 'x' }, 0n, { v: 4 }],
      ['temp', { site: 'x' }, 0n, { v: 2 }],
      ['temp', { site: 'y', host: 'a' }, 0n, { v: 3 }],
      ['temp2', { site: 'x' }, 0n, { v: 5 }],
    ])
  })

  t.test(`remote write, with histograms (${storage})`, async (t) => {
    const { send, stored } = await feed(t, 'prometheus_remote_write', storage)
    const message = (labels: [string, string][], value: number) => snappy.compressSync(writeRequest([{ labels, samples: [{ value, ms: MS }] }]))
    const labels = (host: string): [string, string][] => [
      ['__name__', 'up'],
      ['host', host],
    ]
    const histogram: WireHistogram = { ms: MS, countInt: 3, sum: 6, schema: 0, zeroThreshold: 0.001, zeroInt: 0, positiveSpans: [[0, 1]], positiveDeltas: [3] }
    const both = snappy.compressSync(
      writeRequest([
        { labels: labels('b'), samples: [{ value: 2, ms: MS }] },
        { labels: [['__name__', 'latency']], histograms: [histogram] },
      ]),
    )
    t.same(await send({ body: message(labels('a'), 1) }, { body: both }, { body: message(labels('c'), Number.NaN) }), [])
    t.match(await send({ body: 'nothing' }), [/^BAD_REQUEST/])
    // Scans show no NaN.
    const rows = (await stored()) as [string, Record<string, string>][]
    t.same(rows.map(([measurement, { host = '' }]) => [measurement, host]).sort(), [
      ['latency', ''],
      ['up', 'a'],
      ['up', 'b'],
    ])
  })

  t.test(`OTLP in protobuf and JSON (${storage})`, async (t) => {
    const { send, stored } = await feed(t, 'otlp', storage)
    const request = writeMetrics([{ name: 'load', gauge: [{ time: TIME, value: 1.5 }] }], { host: 'a' })
    const json = {
      resourceMetrics: [
        {
          resource: { attributes: [{ key: 'host', value: { stringValue: 'b' } }] },
          scopeMetrics: [{ metrics: [{ name: 'load', gauge: { dataPoints: [{ timeUnixNano: String(TIME), asDouble: 2.5 }] } }] }],
        },
      ],
    }
    t.same(await send({ body: request }, { body: JSON.stringify(json) }), [])
    t.match(await send({ body: 'nothing' }, { body: '{"a"' }), [/^BAD_REQUEST/, /^BAD_REQUEST/])
    t.same(
      ((await stored()) as [string, { host: string }, bigint, object][]).map(([name, { host }, time, fields]) => [name, host, time, fields]),
      [
        ['load', 'a', 0n, { gauge: 1.5 }],
        ['load', 'b', 0n, { gauge: 2.5 }],
      ],
    )
  })
}
