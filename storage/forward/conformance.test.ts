/** The conformance suite with both ends of a link in one engine: what is written goes in at the edge, all else is answered upstream; an edge that starts again has lost nothing. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StorageEngine } from 'svcdb'
import { boot, systemClock } from 'svcdb/testkit'
import { conformance, type MakeEngine } from '../conformance/index.ts'
import { edgeOf } from './testing.ts'

const OF_THE_EDGE: ReadonlySet<string | symbol> = new Set(['batch', 'recycle', 'resolver', 'state', 'status'])

const COMPRESSIONS = ['zstd', 'gzip', 'none']
let made = 0

const both: MakeEngine = async ({ maintenance_interval_secs: _, ...config }, now) => {
  const compression = COMPRESSIONS[made++ % COMPRESSIONS.length]
  const dir = mkdtempSync(join(tmpdir(), 'svc-forward-'))
  const clock = { ...systemClock, now, nowNanos: () => BigInt(now()) * 1_000_000n }
  const node = await boot({
    plugins: ['grpc'],
    clock,
    config: { server: { multi_tenancy: true, allow_open: true }, grpc: { addr: '127.0.0.1:0' }, database: config },
  })
  const url = `http://127.0.0.1:${node.port('grpc')}`
  const begin = async () => {
    const edge = edgeOf({ ...config, data_dir: dir, forward: { compression, upstream: [{ name: 'upstream', url }] } }, { now })
    await edge.open()
    return edge
  }
  let edge = await begin()
  const write: StorageEngine['write'] = async (...given) => {
    const result = await edge.write(...given)
    await edge.drained()
    return result
  }
  const close = async () => {
    await edge.close()
    await (node.storage as StorageEngine).close()
  }
  const guard: StorageEngine['guard'] = (given) => {
    edge.guard(given)
    node.storage.guard(given)
  }
  const engine = () =>
    new Proxy(node.storage as StorageEngine, {
      get(upstream, name) {
        if (name === 'write') return write
        if (name === 'close') return close
        if (name === 'guard') return guard
        const from = OF_THE_EDGE.has(name) ? edge : upstream
        const value = Reflect.get(from, name)
        return typeof value === 'function' ? value.bind(from) : value
      },
    })
  const subject = {
    engine: engine(),
    async reopen() {
      await edge.close()
      edge = await begin()
      subject.engine = engine()
      return subject.engine
    },
    async dispose() {
      await edge.close()
      await node.stop()
      rmSync(dir, { recursive: true, force: true })
    },
  }
  return subject
}

/** The edge cannot know it; the point is acknowledged, and a dead letter when the upstream has refused it. */
const UPSTREAM = 'judged by the upstream'
/** docs/guides/edge.md says so. */
const TYPES = 'the edge holds to the types that it has seen since its start, also of what is dropped upstream'
const WINDOW = 'the edge holds to the window that it has seen since its start, also of what is dropped upstream'

conformance('forward', both, {
  resolvesLate: true,
  without: new Map([
    ['every type comes back bit for bit', 'it writes bytes that are no histogram, which no protocol takes; arrives.test.ts compares all types'],
    ['a decimal column keeps the scale of its first write', UPSTREAM],
    ['the cardinality budget counts live series; refused rows give theirs back', UPSTREAM],
    ['the tag keys of a measurement are bounded: a row whose series would bring one more is refused', UPSTREAM],
    ['a row that is refused brings no tag key', UPSTREAM],
    [
      'fields of all measurements together are bounded: rows that bring another are refused, in order of arrival, and those of known fields are stored',
      UPSTREAM,
    ],
    ['the window, the types and the cardinality stand after a restart', UPSTREAM],
    ['a delete of all series leaves the measurement and its types', UPSTREAM],
    ['a series deleted without a range is released: its budget is free, its number is not used again', UPSTREAM],
    ['many deletes of one series, every type of field, and rows in tables of many measurements', 'it writes bytes that are no histogram'],
    ['the series of a pending drop count until it is final', UPSTREAM],
    ['series over the bounds are refused, those there are go on', UPSTREAM],
    ['measurements over the bounds are refused, written or declared', UPSTREAM],
    ['a write, backfill included, may not carry what retention removes', UPSTREAM],
    ['a measurement may have a shorter retention of its own', UPSTREAM],
    ['a write to the name of a pending drop starts another measurement', TYPES],
    ['the deadline is reached when both the clock and the data have passed it', TYPES],
    ['without soft_delete_ttl_secs a drop is final', TYPES],
    ['a namespace that has lost its last measurement takes any history again', WINDOW],
    ['random operations', `refusals are compared row by row; ${UPSTREAM}; sender.test.ts has random writes`],
  ]),
})
