import t from 'tap'
import { verdict } from './record.ts'

t.test('a Challenger wins or goes where it makes a difference', async (t) => {
  t.equal(verdict(1, 0.94, 0.05), 'wins')
  t.equal(verdict(1, 0.96, 0.05), undefined)
  t.equal(verdict(1, 1, 0.05), undefined)
  t.equal(verdict(1, 1.04, 0.05), undefined, 'hardly worse')
  t.equal(verdict(1, 1.06, 0.05), 'loses')
  t.equal(verdict(0, 0, 0.05), undefined)
  t.equal(verdict(0, 0.001, 0.05), 'loses')
  t.equal(verdict(1, 0.999, 0), 'wins')
  t.equal(verdict(1, Number.NaN, 0.05), undefined)
})
