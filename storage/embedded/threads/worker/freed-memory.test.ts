import t from 'tap'
import { FreedMemory } from './freed-memory.ts'

const MIB = 1 << 20

function memory(giveBack: () => Promise<void> = async () => {}) {
  const process = { mib: 300, kept: 0, times: 0 }
  const made = new FreedMemory({
    resident: () => process.mib * MIB,
    async giveBack() {
      process.times++
      await giveBack()
      process.mib -= process.kept
      process.kept = 0
    },
  })
  made.stop() // the test looks by itself
  return { process, look: () => made.look(), soon: () => made.soon() }
}

t.test('memory is given back when the process has grown', async (t) => {
  const { process, look } = memory()
  await look()
  t.equal(process.times, 1, 'at first, whatever a start has left')
  await look()
  t.equal(process.times, 1, 'and not again before it has grown')
  process.mib += 31
  await look()
  t.equal(process.times, 1)
  process.mib += 1
  process.kept = 10
  await look()
  t.equal(process.times, 2)
  t.equal(process.mib, 322)
})

t.test('growth counts from the least it was', async (t) => {
  const { process, look } = memory()
  await look()
  process.mib = 250
  await look()
  process.mib = 282
  await look()
  t.equal(process.times, 2)
})

t.test('what was freed goes back without growth, too', async (t) => {
  const { process, look } = memory()
  await look()
  for (let i = 0; i < 7; i++) await look()
  t.equal(process.times, 1)
  await look()
  t.equal(process.times, 2)
})

t.test('what is being freed, and not taken again, goes back soon, and once', async (t) => {
  const { process, soon } = memory()
  for (let i = 0; i < 3; i++) soon()
  t.equal(process.times, 0, 'threads have yet to collect it')
  for (let waited = 0; waited < 5000 && process.times === 0; waited += 20) await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(process.times, 1)
})

t.test('once at a time, and a failure is tried again', async (t) => {
  const ends: ((error?: Error) => void)[] = []
  const { process, look } = memory(() => new Promise((resolve, reject) => ends.push((error) => (error === undefined ? resolve() : reject(error)))))
  const first = look()
  await look()
  t.equal(process.times, 1)
  ends[0](new Error('no'))
  await first
  const second = look()
  t.equal(process.times, 2)
  ends[1]()
  await second
  await look()
  t.equal(process.times, 2)
})
