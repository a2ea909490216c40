import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { HeapTrimmer } from './heap-trimmer.ts'

const MIB = 1 << 20

function trimmer() {
  const heap = { mib: 40, utilization: 0, trims: 0 }
  const meter = {
    committed: () => heap.mib * MIB,
    utilization: () => heap.utilization,
    trim() {
      heap.trims++
      heap.mib = 20
    },
  }
  const made = new HeapTrimmer(meter)
  made.stop() // the test looks by itself
  return { heap, looks: (count: number) => Array.from({ length: count }, () => made.look()).filter((trimmed) => trimmed).length }
}

t.test('a heap is trimmed once the thread rests', async (t) => {
  const { heap, looks } = trimmer()
  heap.utilization = 0.5
  t.equal(looks(10), 0)
  heap.utilization = 0.01
  t.equal(looks(1), 1)
  t.equal(looks(100), 0, 'and not again before it has grown')
  heap.mib = 25
  t.equal(looks(100), 0)
  heap.mib = 30
  t.equal(looks(1), 1)
})

t.test('one that grows again and again is trimmed ever less often, and at least every ten minutes', async (t) => {
  const { heap, looks } = trimmer()
  const gaps: number[] = []
  for (let gap = 1; gaps.length < 10; gap++) {
    heap.mib = 40
    if (looks(1) === 0) continue
    gaps.push(gap)
    gap = 0
  }
  t.same(gaps, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120])
})

t.test("a thread's own heap", async (t) => {
  let garbage: unknown[] = Array.from({ length: 2_000_000 }, (_, i) => ({ i }))
  t.equal(garbage.length, 2_000_000)
  garbage = []
  const before = process.memoryUsage().heapTotal
  const own = new HeapTrimmer()
  t.teardown(() => own.stop())
  // It is at work until now, and rests while it waits.
  let trimmed = false
  for (let looks = 0; looks < 1200 && !trimmed; looks++) {
    trimmed = own.look()
    if (!trimmed) await setTimeout(50)
  }
  t.ok(trimmed)
  t.ok(process.memoryUsage().heapTotal < before / 2)
})
