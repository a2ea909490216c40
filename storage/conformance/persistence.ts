/** What an engine whose data outlives it must bring back. */
import type { Test } from 'tap'
import type { EngineUnderTest } from './context.ts'
import { dec, f64, HOUR, i64, lines, NOW, str, write } from './points.ts'

export type PersistenceRule = [
  name: string,
  body: (t: Test, subject: EngineUnderTest, reopen: () => ReturnType<NonNullable<EngineUnderTest['reopen']>>) => Promise<void>,
]

export const persistenceRules: PersistenceRule[] = [
  [
    'points, flushed or not, and the schema come back',
    async (t, { engine }, reopen) => {
      const p = (time: bigint, v: number) => ({
        measurement: 'm',
        tags: { h: 'ä' },
        time,
        fields: { v: f64(v), d: dec('1.25'), s: str('x'), i: i64(2n ** 63n - 1n) },
      })
      await write(engine, [p(NOW, 1)])
      await engine.flush()
      await write(engine, [p(NOW, 2), p(NOW + 1n, 3)])
      await engine.declareField('default', 'declared', { name: 'd', type: 'decimal', scale: 7 })
      const schema = await engine.measurements('default')
      for (let round = 0; round < 3; round++) {
        const again = await reopen()
        t.same(
          await lines(again, { measurement: 'm' }),
          [
            [NOW, 2],
            [NOW + 1n, 3],
          ].map(([time, v]) => `{"h":"ä"} ${time} d=decimal:1.25 i=int64:9223372036854775807 s=string:"x" v=float64:${v}`),
        )
        t.same(await again.measurements('default'), schema)
        if (round === 1) await again.flush()
      }
    },
  ],
  [
    'state comes back',
    async (t, { engine }, reopen) => {
      await engine.state('owner').transaction((tx) => tx.put('key', { deep: [1] }))
      for (let round = 0; round < 3; round++) {
        const again = await reopen()
        t.same(await again.state('owner').get('key'), { deep: [1] })
        if (round === 1) await again.flush()
      }
    },
  ],
  [
    'the window, the types and the cardinality stand after a restart',
    async (t, { engine }, reopen) => {
      await write(engine, [{ measurement: 'm', time: NOW, fields: { v: f64(1) } }])
      const again = await reopen()
      t.match(await write(again, [{ measurement: 'm', time: NOW - 10n * HOUR, fields: { v: f64(1) } }]), {
        written: 0,
        rejections: [{ code: 'PARTIAL_WRITE' }],
      })
      t.match(await write(again, [{ measurement: 'm', time: NOW, fields: { v: i64(1n) } }]), { written: 0, rejections: [{ code: 'SCHEMA_ERROR' }] })
      const many = Array.from({ length: 5 }, (_, i) => ({ measurement: 'm', tags: { h: `${i}` }, time: NOW, fields: { v: f64(i) } }))
      t.match(await write(again, many), { written: 4, rejected: 1, rejections: [{ code: 'CARDINALITY_EXCEEDED', position: 4 }] })
    },
  ],
]
