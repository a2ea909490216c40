/** The heap of numbers by name against a plain look at all of them. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { Most } from './most.ts'

t.test('the largest number is found after any changes, and of equal ones the first name', async (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed)
    const below = (end: number) => Math.floor(random() * end)
    const plain = new Map<string, number>(Array.from({ length: below(12) }, (_, i) => [`n${i}`, below(6)] as const))
    const most = new Most(plain)
    const expected = () => [...plain].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0]?.[0]
    t.equal(most.get(), expected())
    for (let step = 0; step < 300; step++) {
      const name = `n${below(16)}`
      if (random() < 0.1) {
        most.delete(name)
        plain.delete(name)
      } else {
        const number = below(6)
        most.set(name, number)
        plain.set(name, number)
      }
      if (random() < 0.7 && most.get() !== expected()) t.equal(most.get(), expected(), `seed ${seed}, step ${step}`)
    }
  }
})
