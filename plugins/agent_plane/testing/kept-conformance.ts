/** What the stores do that keep bytes, how runs ended that others have commissioned, and what agents remember, whatever state store is below them. */
import { Buffer } from 'node:buffer'
import type { StateStore } from 'svcdb'
import { type AgentContext, defineAgent, type Json, type Label, OWN, type ToolServices } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import type { Test } from 'tap'
import { governor } from '../agents/govern.ts'
import { AgentRegistry } from '../agents/registry.ts'
import { Driver } from '../drive/driver.ts'
import { fakeModel } from '../models/fake.ts'
import { newRunId } from '../record/names.ts'
import { blobDigest, blobFaults, blobOf, keepBlob, MAX_BLOB_BYTES } from '../store/blobs.ts'
import { endFor, parentOf, RUN_CONCLUDED, RUN_KEY, RUN_OVER, setParent, tellParent } from '../store/children.ts'
import { arrivedFor, beginWait, deadLetters } from '../store/events.ts'
import { releaseLease, takeLease } from '../store/leases.ts'
import { setStatus, statusOf } from '../store/runs.ts'

const TTL = 30_000
const NOW = 1_700_000_000_000
const UNTRUSTED: Label = { provenance: ['file:scan'], trust: 'untrusted', sensitivity: 'confidential' }
let next = 0
const newRun = (): string => newRunId(NOW + next++, () => 0.25)

/** Bytes that no part of repeats another. */
function bytesOf(size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  let word = 1
  for (let i = 0; i < size; i++) {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0
    bytes[i] = word >>> 24
  }
  return bytes
}

/** Two agents that keep what they are given and say what they find; a process each time. */
function remembering(state: StateStore): (agent: string, input: Json) => Promise<{ status: string; output?: Json; reason?: string }> {
  const agentOf = (name: string) =>
    defineAgent({
      manifest: {
        apiVersion: 'svc/v1alpha1',
        kind: 'Agent',
        metadata: { name, version: '1' },
        spec: { capabilities: { provides: [`${name}.keeps`] }, budgets: {} },
      },
      skills: (skill) => [
        skill({
          capability: `${name}.keeps`,
          summary: 'Remembers and recalls',
          input: Type.Any(),
          output: Type.Any(),
          invoke: async (context: AgentContext, input: { name: string; value?: Json }) => {
            if (input.value !== undefined) await context.remember(input.name, input.value)
            return context.recall(input.name)
          },
        }),
      ],
    })
  return async (agent, input) => {
    const registry = new AgentRegistry()
    for (const name of ['one', 'other']) registry.add(agentOf(name))
    const { skills } = registry
    const now = () => NOW + next++
    const begin = () => Promise.reject(new Error('nobody is commissioned'))
    const govern = governor({ state, registry, now, services: () => ({}) as ToolServices, model: () => fakeModel([]), begin })
    const driver = new Driver({
      state,
      skills,
      govern,
      governing: (capability) => registry.governing(capability),
      calendars: new Map(),
      holder: 'p',
      leaseMs: TTL,
      limits: { maxSteps: 10, maxEffects: 100 },
      now,
      random: () => 0.75,
      soon: async () => {},
      sleep: async () => {},
      every: () => () => {},
      performed: () => {},
    })
    const { run, epoch } = await driver.admit({ capability: `${agent}.keeps`, input, actor: 'ann' })
    await driver.drive(run, epoch)
    const { status, reason } = await driver.standing(run)
    return { status, ...(reason === undefined ? {} : { reason }), output: (await driver.replay(run)).output ?? null }
  }
}

export const keptRules: readonly (readonly [string, (t: Test, state: StateStore) => Promise<void>])[] = [
  [
    'bytes up to 4 MiB are kept once, and read by whoever has them',
    async (t, state) => {
      const keep = (owner: string, bytes: Uint8Array, label = OWN) => state.transaction((tx) => keepBlob(tx, owner, bytes, label))
      for (const size of [0, 1, 196_607, 196_608, 196_609, MAX_BLOB_BYTES]) {
        const bytes = bytesOf(size)
        const digest = await keep('case_a', bytes)
        t.equal(digest, blobDigest(bytes))
        const found = await blobOf(state, 'case_a', digest)
        t.ok(found !== undefined && Buffer.compare(found.bytes, bytes) === 0, `${size} bytes`)
        t.equal(await blobOf(state, 'case_b', digest), undefined, 'they are of their owner')
      }
      const digest = blobDigest(bytesOf(MAX_BLOB_BYTES))
      const rows = (await state.list({ prefix: 'blob' })).length
      await keep('case_b', bytesOf(MAX_BLOB_BYTES), UNTRUSTED)
      t.equal((await state.list({ prefix: 'blob' })).length, rows + 1, 'of the bytes themselves there is one')
      t.same((await blobOf(state, 'case_b', digest))?.label, UNTRUSTED)
      await keep('case_a', bytesOf(MAX_BLOB_BYTES), UNTRUSTED)
      t.match((await blobOf(state, 'case_a', digest))?.label, { trust: 'untrusted', sensitivity: 'confidential' }, 'labels of one owner are joined')
      await t.rejects(keep('case_a', bytesOf(MAX_BLOB_BYTES + 1)), { code: 'BAD_REQUEST', message: /4194304 is the limit/ })
      t.equal(await blobOf(state, 'case_a', blobDigest(bytesOf(MAX_BLOB_BYTES + 1))), undefined)
      t.same(await blobFaults(state, 'case_a'), [])
    },
  ],
  [
    'bytes that are damaged are named',
    async (t, state) => {
      const digest = await state.transaction((tx) => keepBlob(tx, 'run_a', bytesOf(400_000), OWN))
      const parts = await state.list<string>({ prefix: `blob-part/${digest}/` })
      t.equal(parts.length, 3)
      const damage = async (act: Parameters<StateStore['transaction']>[0], why: RegExp) => {
        await state.transaction(act)
        await t.rejects(blobOf(state, 'run_a', digest), why)
        const faults = await blobFaults(state, 'run_a')
        t.match(faults, [why])
        t.equal(faults.length, 1)
        await state.transaction((tx) => parts.forEach(({ key, value }) => void tx.put(key, value)))
        t.same(await blobFaults(state, 'run_a'), [])
      }
      await damage((tx) => tx.delete(parts[1].key), /its bytes are others than were kept/)
      await damage((tx) => tx.put(parts[2].key, parts[1].value), /its bytes are others than were kept/)
      await state.transaction((tx) => tx.delete(`blob/${digest}`))
      t.match(await blobFaults(state, 'run_a'), [/it is not there/])
    },
  ],
  [
    'who has commissioned a run hears how it ended first, and that it is over; nothing of it ages',
    async (t, state) => {
      const [parent, child, stranger] = [newRun(), newRun(), newRun()]
      const wait = (run: string, kind: string) => ({ run, key: kind, until: NOW + TTL, event: { kind, correlation: [{ namespace: RUN_KEY, value: child }] } })
      await state.transaction(async (tx) => {
        await takeLease(tx, parent, 'a', NOW, TTL)
        for (const run of [parent, child, stranger]) await setStatus(tx, run, 'running')
      })
      await t.rejects(
        state.transaction((tx) => setParent(tx, child, { run: parent, epoch: 2 })),
        /another process has taken it over/,
      )
      t.equal(await parentOf(state, child), undefined)
      await state.transaction((tx) => setParent(tx, child, { run: parent, epoch: 1 }))
      t.equal(await parentOf(state, child), parent)
      const tell = (run: string, end: Parameters<typeof tellParent>[2]) => state.transaction((tx) => tellParent(tx, run, end))
      const heard = (kind: string) => endFor(state, kind, [{ namespace: RUN_KEY, value: child }])
      t.same(await tell(stranger, { status: 'succeeded' }), [], 'nobody has commissioned it')
      await state.transaction(async (tx) => {
        t.equal(await beginWait(tx, wait(parent, RUN_CONCLUDED)), undefined)
        await setStatus(tx, parent, 'suspended')
      })
      t.same([await tell(child, { status: 'quarantined' }), await heard(RUN_CONCLUDED)], [[], undefined], 'somebody will decide of it')
      t.same(await tell(child, { status: 'failed', reason: 'no' }), [parent])
      t.equal(await statusOf(state, parent), 'running')
      t.match(await arrivedFor(state, parent, RUN_CONCLUDED), { payload: { run: child, status: 'failed', reason: 'no' } })
      t.match(await heard(RUN_CONCLUDED), { payload: { status: 'failed' } })
      t.equal(await heard(RUN_OVER), undefined, 'it may go on')
      await state.transaction(async (tx) => {
        t.equal(await beginWait(tx, wait(parent, RUN_OVER)), undefined)
        await setStatus(tx, parent, 'suspended')
      })
      await state.transaction((tx) => setStatus(tx, child, 'cancelled'))
      t.same(await tell(child, { status: 'cancelled' }), [parent])
      t.match(await arrivedFor(state, parent, RUN_OVER), { payload: { run: child, status: 'cancelled' } })
      t.match(await heard(RUN_CONCLUDED), { payload: { status: 'failed' } }, 'the first end stays')
      t.match(await heard(RUN_OVER), { payload: { status: 'cancelled' } })
      t.equal(await endFor(state, RUN_OVER, [{ namespace: 'n', value: child }]), undefined)
      t.same(await deadLetters(state, 10), [])
      await state.transaction((tx) => releaseLease(tx, parent, 1))
    },
  ],
  [
    'an agent recalls what it has remembered, in other runs and other processes, and no other agent does',
    async (t, state) => {
      const ask = remembering(state)
      t.match(await ask('one', { name: 'n' }), { status: 'succeeded', output: null })
      const value = { text: 'ä\u0000\ufeff', list: [1, null, { deep: true }] }
      t.match(await ask('one', { name: 'n', value }), { status: 'succeeded', output: value })
      t.same((await ask('one', { name: 'n' })).output, value)
      t.match(await ask('other', { name: 'n' }), { status: 'succeeded', output: null })
      t.same((await ask('other', { name: 'n', value: 2 })).output, 2)
      t.same((await ask('one', { name: 'n' })).output, value)
      const long = 'x'.repeat(65_534)
      t.equal((await ask('one', { name: 'm', value: long })).output, long)
      t.match(await ask('one', { name: 'm', value: `${long}x` }), { status: 'failed', reason: /it has more than 65536 characters/ })
      t.equal((await ask('one', { name: 'm' })).output, long)
      for (const name of ['', 'x'.repeat(257)]) t.match(await ask('one', { name }), { status: 'failed', reason: /a name has 1 to 256 characters/ })
      t.equal((await ask('one', { name: 'x'.repeat(256), value: 1 })).output, 1)
    },
  ],
]
