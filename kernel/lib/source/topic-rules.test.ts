import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { TopicRules } from './topic-rules.ts'

t.test("what is kept of topics is bounded by their length, which is the writers' to choose", async (t) => {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const rules = new TopicRules({ measurements: {}, tags: ['+a/+b'], fallback: 'last level' })
  gc()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 9000; i++) rules.of(`${i}/${Buffer.alloc(30_000, 'x').toString('latin1')}`)
  gc()
  const held = process.memoryUsage().heapUsed - before
  t.ok(held < 32 * 1024 * 1024, `${Math.round(held / 1024 / 1024)} MiB are held`)
  t.same(rules.of('1/b'), { measurement: 'b', tags: ['a', '1', 'b', 'b'] })
})
