import t from 'tap'
import { SampledLog } from './sampled-log.ts'

t.test('one a second is told, and how many were not', async (t) => {
  let now = 0
  const told: [object, string][] = []
  const log = new SampledLog({ warn: (detail, text) => void told.push([detail, text]) }, () => now)
  for (; now < 2500; now += 10) log.warn({ at: now }, 'bad')
  t.same(told, [
    [{ at: 0 }, 'bad'],
    [{ at: 1000, more: 99 }, 'bad'],
    [{ at: 2000, more: 99 }, 'bad'],
  ])
  now = 10_000
  log.warn({ at: now }, 'bad')
  log.warn({ at: now }, 'bad')
  t.same(told.at(-1), [{ at: 10_000, more: 49 }, 'bad'])
})
