import t from 'tap'
import { Numbered } from './numbered.ts'

t.test('equal values have one number, and a value is not compared with each', (t) => {
  let made = 0
  const value = (n: number) => ({
    toJSON() {
      made++
      return { n }
    },
  })
  const list = new Numbered<object>()
  for (let i = 0; i < 2000; i++) list.add(value(i % 1000))
  t.equal(list.values.length, 1000)
  t.equal(list.find(value(999)), 999)
  t.equal(list.find(value(1000)), undefined)
  t.equal(made, 2002)
  t.end()
})
