import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Collection, collect } from './collect.ts'

const BYTES = 32 << 20

/** Shared memory that has lived through collections of the young generation, and that nothing leads to any more. */
async function forgotten(): Promise<WeakRef<SharedArrayBuffer>> {
  const held: (SharedArrayBuffer | undefined)[] = [new SharedArrayBuffer(BYTES)]
  for (let i = 0; i < 3; i++) collect({ type: 'minor' })
  const ref = new WeakRef(held[0] as SharedArrayBuffer)
  held[0] = undefined
  // What a weak reference was made of stays until the end of the turn.
  await sleep(1)
  return ref
}

for (const { what, options } of [
  { what: 'no options', options: undefined },
  { what: 'a major collection', options: { type: 'major' } },
  { what: 'a major collection at once', options: { type: 'major', execution: 'sync', flavor: 'last-resort' } },
] satisfies { what: string; options: Collection | undefined }[])
  t.test(`all of the heap is collected: ${what}`, async (t) => {
    const ref = await forgotten()
    collect(options)
    await sleep(1)
    t.equal(ref.deref(), undefined)
  })

t.test('the young generation alone', async (t) => {
  const ref = await forgotten()
  collect({ type: 'minor' })
  await sleep(1)
  t.ok(ref.deref() !== undefined)
})
