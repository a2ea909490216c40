/** What a namespace holds, and what its guard keeps out of it. */
import type { NamespaceBounds, NamespaceUsage, StorageEngine } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Life, LifeRule } from './life.ts'
import { f64, fill, lines, NOW, type TestPoint, write } from './points.ts'

export const namespacesConfig = { soft_delete_ttl_secs: 86_400, maintenance_interval_secs: 1 }

const A = { namespace: 'alpha' }
const B = { namespace: 'beta' }
const point = (measurement: string, host: string, time = NOW): TestPoint => ({ measurement, tags: { host }, time, fields: { v: f64(1) } })
const points = (measurement: string, hosts: string): TestPoint[] => [...hosts].map((host) => point(measurement, host))
const mixed = (measurement: string, count: number): TestPoint[] =>
  Array.from({ length: count }, (_, i) => ({ ...point(measurement, 'h', NOW + BigInt(i)), mixed: true }))
const counts = ({ series, measurements }: NamespaceUsage) => ({ series, measurements })

/** The engine of the moment, with a guard that knows these bounds. */
function guarded(life: Life, bounds: Record<string, NamespaceBounds>, closed: readonly string[] = []): StorageEngine {
  const { engine } = life
  engine.guard({
    bounds: (namespace) => bounds[namespace],
    refusal: (namespace) => (closed.includes(namespace) ? new SvcError('NOT_FOUND', `"${namespace}" is closed`) : undefined),
    exceeded: (namespace, kind) => new SvcError('RATE_LIMITED', `no more ${kind} for "${namespace}"`),
  })
  return engine
}

export const namespaceRules: LifeRule[] = [
  [
    'series and measurements are counted by namespace, whatever comes and goes',
    async (t, life) => {
      const usage = async (namespace: string) => counts(await life.engine.usage(namespace))
      t.same(await life.engine.namespaces(), [])
      t.same(await life.engine.usage('alpha'), { series: 0, measurements: 0, bytes: 0 })
      await write(life.engine, [...points('cpu', 'abc'), ...points('mem', 'ab'), ...mixed('one', 3)], A)
      await write(life.engine, [...points('cpu', 'a'), ...mixed('one', 1)], B)
      await life.between()
      t.same(await life.engine.namespaces(), ['alpha', 'beta'])
      t.same(
        [await usage('alpha'), await usage('beta'), await usage('')],
        [
          { series: 6, measurements: 3 },
          { series: 2, measurements: 2 },
          { series: 0, measurements: 0 },
        ],
      )
      await life.engine.drop('alpha', 'cpu')
      await life.between()
      t.same(await usage('alpha'), { series: 6, measurements: 2 }, 'a drop that can be undone keeps its series')
      await life.engine.restore('alpha', 'cpu')
      await life.between()
      t.same(await usage('alpha'), { series: 6, measurements: 3 })
      await life.engine.drop('alpha', 'cpu', { final: true })
      await life.between()
      t.same(await usage('alpha'), { series: 3, measurements: 2 })
      await life.engine.delete({ namespace: 'alpha', measurement: 'mem' })
      await life.settle()
      await life.between()
      await life.settle()
      t.same(await usage('alpha'), { series: 1, measurements: 2 }, 'a delete of all points gives series back')
      await write(life.engine, [...points('cpu', 'xy'), ...points('mem', 'z')], A)
      await life.between()
      t.same(
        [await usage('alpha'), await usage('beta')],
        [
          { series: 4, measurements: 3 },
          { series: 2, measurements: 2 },
        ],
      )
      for (const name of ['cpu', 'mem', 'one']) await life.engine.drop('alpha', name, { final: true })
      await life.between()
      t.same(await life.engine.usage('alpha'), { series: 0, measurements: 0, bytes: 0 })
      t.same(await life.engine.namespaces(), ['beta'])
    },
  ],
  [
    'series over the bounds are refused, those there are go on',
    async (t, life) => {
      const bounds = { alpha: { maxSeries: 3, maxMeasurements: 0 } }
      const refusal = { code: 'RATE_LIMITED', message: 'no more series for "alpha"' }
      t.match(await write(guarded(life, bounds), points('cpu', 'abcd'), A), { written: 3, rejected: 1, rejections: [{ ...refusal, position: 3 }] })
      await life.between()
      const engine = guarded(life, bounds)
      t.match(await write(engine, [point('cpu', 'e', NOW + 1n), point('cpu', 'a', NOW + 1n)], A), { written: 1, rejections: [{ ...refusal, position: 0 }] })
      t.match(await write(engine, points('cpu', 'abcde'), B), { written: 5, rejected: 0 }, 'others have no bounds')
      await engine.drop('alpha', 'cpu', { final: true })
      t.match(await write(engine, points('mem', 'xyz'), A), { written: 3, rejected: 0 }, 'what was given back can be had again')
      await life.between()
      t.match(await write(guarded(life, bounds), points('mem', 'q'), A), { written: 0, rejections: [refusal] })
      t.match(
        await write(guarded(life, { alpha: { maxSeries: 1, maxMeasurements: 0 } }), points('mem', 'xyz'), A),
        { written: 3 },
        'a lower bound takes nothing away',
      )
    },
  ],
  [
    'what a refused row would have begun does not count',
    async (t, life) => {
      const engine = guarded(life, { alpha: { maxSeries: 2, maxMeasurements: 2 } })
      await write(engine, points('cpu', 'a'), A)
      for (let round = 0; round < 5; round++) {
        const wrong: TestPoint = { measurement: `m${round}`, tags: { host: `h${round}` }, time: NOW, fields: { v: f64(Number.NaN) } }
        t.match(await write(engine, [wrong], A), { written: 0, rejections: [{ code: 'INVALID_POINT' }] })
        const { batch } = fill(engine, [point(`n${round}`, 'x')], 'alpha')
        engine.recycle(batch)
      }
      t.same(counts(await engine.usage('alpha')), { series: 1, measurements: 1 })
      t.match(await write(engine, points('mem', 'b'), A), { written: 1, rejected: 0 })
    },
  ],
  [
    'measurements over the bounds are refused, written or declared',
    async (t, life) => {
      const bounds = { alpha: { maxSeries: 0, maxMeasurements: 2 } }
      const refusal = { code: 'RATE_LIMITED', message: 'no more measurements for "alpha"' }
      const all = [...points('cpu', 'a'), ...points('mem', 'a'), ...points('disk', 'a'), ...points('cpu', 'b')]
      t.match(await write(guarded(life, bounds), all, A), { written: 3, rejected: 1, rejections: [{ ...refusal, position: 2 }] })
      await life.between()
      const engine = guarded(life, bounds)
      t.match(await write(engine, mixed('disk', 1), A), { written: 0, rejections: [refusal] })
      await t.rejects(engine.declareField('alpha', 'disk', { name: 'f', type: 'bool' }), refusal)
      await engine.declareField('alpha', 'cpu', { name: 'f', type: 'bool' })
      await engine.drop('alpha', 'mem', { final: true })
      await engine.declareField('alpha', 'disk', { name: 'f', type: 'bool' })
      t.same(
        (await engine.measurements('alpha')).map(({ name }) => name),
        ['cpu', 'disk'],
      )
    },
  ],
  [
    'nothing comes into a namespace that is closed',
    async (t, life) => {
      await write(life.engine, [...points('cpu', 'a'), ...points('mem', 'a')], A)
      await life.engine.drop('alpha', 'mem')
      await life.between()
      const { batch } = fill(life.engine, points('disk', 'a'), 'alpha')
      const engine = guarded(life, {}, ['alpha'])
      const refusal = { code: 'NOT_FOUND', message: '"alpha" is closed' }
      await t.rejects(engine.write(batch), refusal)
      await t.rejects(write(engine, points('cpu', 'b'), A), refusal)
      await t.rejects(engine.declareField('alpha', 'disk', { name: 'f', type: 'bool' }), refusal)
      await t.rejects(engine.restore('alpha', 'mem'), refusal)
      t.equal((await lines(engine, { namespace: 'alpha', measurement: 'cpu' })).length, 1, 'it is still read')
      t.same(counts(await engine.usage('alpha')), { series: 2, measurements: 1 })
      await engine.drop('alpha', 'cpu', { final: true })
      t.same(await engine.measurements('alpha'), [])
      t.match(await write(engine, points('cpu', 'b'), B), { written: 1 })
    },
  ],
  [
    'measurements are listed by pages, by name',
    async (t, life) => {
      const names = Array.from({ length: 1300 }, (_, i) => `m${(i * 7919) % 1300}`)
      for (const some of [names.slice(0, 650), names.slice(650)])
        await write(
          life.engine,
          some.map((name) => point(name, 'a')),
          A,
        )
      await write(life.engine, [point('m5', 'a'), point('other', 'a')], B)
      const same = async (expected: readonly string[]) => {
        const sorted = [...expected].sort()
        for (const [offset, limit] of [
          [0, 3],
          [1, 1],
          [511, 4],
          [sorted.length - 2, 10],
          [sorted.length, 10],
          [10 ** 9, 10],
          [0, 0],
          [0, 10 ** 6],
        ]) {
          const { items, total } = await life.engine.measurementsPage({ ...A, offset, limit })
          t.same([items.map(({ name }) => name), total], [sorted.slice(offset, offset + limit), sorted.length], `${limit} behind ${offset}`)
        }
        t.same(await life.engine.measurementsPage({ ...A, limit: 2 }), { items: (await life.engine.measurements('alpha')).slice(0, 2), total: sorted.length })
      }
      await same(names)
      await life.between()
      await same(names)
      const gone = ['m0', 'm1', 'm10', 'm999']
      for (const name of gone) await life.engine.drop('alpha', name, { final: name !== 'm10' })
      await life.between()
      await same(names.filter((name) => !gone.includes(name)))
      await life.engine.restore('alpha', 'm10')
      await write(life.engine, [point('m0', 'b'), point('a new one', 'b')], A)
      await life.between()
      await same([...names.filter((name) => name === 'm0' || name === 'm10' || !gone.includes(name)), 'a new one'])
      const { items, total } = await life.engine.measurementsPage({ ...B, limit: 10 })
      t.same([items.map(({ name }) => name), total], [['m5', 'other'], 2])
      t.same(await life.engine.measurementsPage({ namespace: 'gamma', limit: 10 }), { items: [], total: 0 })
    },
  ],
  [
    'bytes are counted by namespace',
    async (t, life) => {
      const bytes = async (namespace: string) => (await life.engine.usage(namespace)).bytes
      await write(life.engine, [...mixed('one', 900), ...mixed('two', 900), ...points('cpu', 'abcdef')], { ...A, backfill: true })
      await write(life.engine, mixed('one', 100), { ...B, backfill: true })
      await life.between()
      const [alpha, beta] = [await bytes('alpha'), await bytes('beta')]
      t.ok(alpha > 2 * beta && beta > 0, `${alpha} and ${beta} bytes`)
      t.equal(await bytes('gamma'), 0)
      for (const name of ['one', 'two', 'cpu']) await life.engine.drop('alpha', name, { final: true })
      await life.between()
      t.same(await life.engine.usage('alpha'), { series: 0, measurements: 0, bytes: 0 }, 'what is dropped does not count, wherever it lies')
      t.ok((await bytes('beta')) > 0)
      await write(life.engine, mixed('one', 1), { ...A, backfill: true })
      const again = await bytes('alpha')
      t.ok(again < 1000, `${again} bytes: nor when the name has come again`)
    },
  ],
]
