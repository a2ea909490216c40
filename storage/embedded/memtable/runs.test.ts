import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { IntList } from './int-list.ts'
import { joinRuns, partsOfRuns, pushRun } from './runs.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('parts of runs that lie in either of two lists are joined, whatever the order of the runs', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 1000; round++) {
    const [among, a, b, out] = [new IntList(), new IntList(), new IntList(), new IntList()]
    const runs = Array.from({ length: random.below(5) }, (_, i) => ({ of: random.below(3), from: i * 10 + random.below(3), to: i * 10 + 4 + random.below(7) }))
    const expected: number[] = []
    for (const { of, from, to } of runs.sort(() => random.next() - 0.5)) {
      pushRun(among, of, from, to)
      const rows = Array.from({ length: to - from }, () => [random.chance(0.5), random.chance(0.5)])
      pushRows(
        a,
        of,
        from,
        rows.map(([inA]) => inA),
      )
      pushRows(
        b,
        of,
        from,
        rows.map(([, inB]) => inB),
      )
      for (const [i, each] of rows.entries()) if (each.includes(true)) expected.push(of, from + i)
    }
    joinRuns(among, a, b, out)
    const found: number[] = []
    for (let r = 0; r < out.length; r += 3) for (let i = out.values[r + 1]; i < out.values[r + 2]; i++) found.push(out.values[r], i)
    if (JSON.stringify(found) !== JSON.stringify(expected)) return void t.fail(`SVC_SEED=${seed}, round ${round}: ${found} of ${expected}`)
  }
  t.pass()
  t.end()
})

function pushRows(out: IntList, of: number, first: number, rows: readonly boolean[]): void {
  for (let i = 0; i < rows.length; i++) {
    if (!rows[i]) continue
    let end = i
    while (rows[end]) end++
    pushRun(out, of, first + i, first + end)
    i = end
  }
}

t.test('runs come in parts of so many rows, of which a run may have several', (t) => {
  const parts = (most: number) => Array.from(partsOfRuns(Int32Array.of(7, 0, 5, 8, 5, 6, 9, 10, 12), most), (part) => [...part])
  t.same(parts(3), [
    [7, 0, 3],
    [7, 3, 5, 8, 5, 6],
    [9, 10, 12],
  ])
  t.same(parts(8), [[7, 0, 5, 8, 5, 6, 9, 10, 12]])
  t.equal(parts(0.5).length, 8, 'one row at least')
  t.same(Array.from(partsOfRuns(new Int32Array(0), 3)), [])
  t.end()
})
