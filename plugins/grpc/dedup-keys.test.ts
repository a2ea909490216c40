import type { CallContext } from 'svcdb'
import t, { type Test } from 'tap'
import { DedupKeys } from './dedup-keys.ts'

const context = { namespace: 'n', principal: 'p' } as CallContext

function keysOf() {
  const clock = { now: 0 }
  const server = { dedup_window_secs: 60, max_dedup_entries: 8, write_timeout_secs: 0 }
  const keys = new DedupKeys({ server, clock: { monotonic: () => clock.now } } as never)
  return { keys, clock, claim: () => keys.claim(context, 'k') }
}

const idle = () => new Promise((resolve) => setImmediate(resolve))
const waits = async (t: Test, claimed: Promise<unknown>) => t.equal(await Promise.race([claimed, idle().then(() => 'waits')]), 'waits')

t.test('a key is under way from its claim on, and what it stands for may fail', async (t) => {
  const { keys, claim } = keysOf()
  const [first, second, third] = [claim(), claim(), claim()]
  const key = (await first) as string
  await waits(t, second)
  keys.end(key, false)
  t.equal(await second, key, 'one of those that waited has it now')
  await waits(t, third)
  keys.end(key, false)
  t.equal(await third, key)
  keys.end(key, true)
  t.equal(await claim(), null)
})

t.test('a key whose window ends, or whose namespace goes, while it is under way is waited for all the same', async (t) => {
  const { keys, clock, claim } = keysOf()
  const key = (await claim()) as string
  clock.now = 60_000
  const second = claim()
  keys.forget('n')
  const third = claim()
  await waits(t, second)
  keys.end(key, true)
  t.same(await Promise.all([second, third]), [null, null])
  t.equal(await claim(), key)
})
