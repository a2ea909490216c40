import t from 'tap'
import { fuzz } from './parse.fuzz.ts'

t.test('random statements, for a moment', (t) => {
  const { tried, taken } = fuzz(Number(process.env.SVC_SEED ?? Date.now() % 1_000_000), (tried) => tried < 5000)
  t.ok(tried > 100 && taken > 50, `${tried} tried, ${taken} taken`)
  t.end()
})
