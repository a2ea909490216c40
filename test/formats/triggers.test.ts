/** The worked examples of docs/formats/triggers.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import { historyOf } from 'svcdb/lib/changes'
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { Cooldowns, seriesHash } from '../../plugins/triggers/cooldown/cooldowns.ts'
import { type KeptSpans, Spans } from '../../plugins/triggers/cooldown/spans.ts'
import { type After, keysOf, type Place, partsOf, type Ring } from '../../plugins/triggers/keys.ts'
import { Store } from '../../plugins/triggers/store.ts'
import { type KeptTrigger, keptOf, shown, triggerOf } from '../../plugins/triggers/trigger.ts'

const page = readFileSync(new URL('../../docs/formats/triggers.md', import.meta.url), 'utf8')
const example = <T>(name: string): T => JSON.parse(new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? '') as T

t.test('the definition', async (t) => {
  const kept = example<KeptTrigger>('trigger')
  const trigger = triggerOf(kept)
  t.same(shown(trigger), { name: 'hot', measurement: 'cpu', enabled: true, delivery: ['log'], condition: "usage > 90 AND host = 'a'", cooldown_secs: 300 })
  t.same(keptOf(trigger), kept)
  t.throws(() => triggerOf({ ...kept, statement: 'SHOW TRIGGERS' }), /its statement makes none/)
})

t.test('the cooldown', async (t) => {
  const kept = example<KeptSpans>('cooldown')
  const spans = Spans.from(kept, 300_000_000_000n)
  t.same(spans.kept(), kept)
  for (const [time, silent] of [
    [1_699_999_999_000_000_000n, true],
    [1_700_000_100_000_000_000n, false],
    [1_700_000_301_000_000_000n, true],
    [1_700_001_200_000_000_000n, true],
    [1_700_002_100_000_000_000n, false],
    [1_700_009_299_000_000_000n, true],
  ] as const)
    t.equal(spans.isSilent(time, 300_000_000_000n), silent, String(time))
})

t.test('the keys', async (t) => {
  const keys = keysOf('acme')
  t.equal(keys.signal(example<Ring>('ring').next), 'signal/acme/0000000000000012')
  t.equal(keysOf('').trigger('hot'), 'trigger//hot')
  t.same(partsOf(keys.trigger('hot')), { namespace: 'acme', rest: 'hot' })
  t.match(seriesHash({ host: 'a', zone: 'b' }), /^[\w-]{22}$/)
  t.equal(seriesHash({ zone: 'b', host: 'a' }), seriesHash({ host: 'a', zone: 'b' }))
  const trigger = triggerOf(example<KeptTrigger>('trigger'))
  const cooldowns = new Cooldowns(() => 10)
  cooldowns.load(`${trigger.id}/${seriesHash({ host: 'a' })}`, trigger, example<KeptSpans>('cooldown'))
  const changes = { put: new Map(), deleted: new Set<string>(), floors: new Map() }
  const time = 1_700_009_100_000_000_000n
  t.equal(
    cooldowns.judge(trigger, 1, Number(BigInt.asIntN(32, time)), Number(time >> 32n), () => ({ host: 'a' }), changes),
    'silent',
    'the entry is found by its tags',
  )
})

t.test('the places, as they are and as they were', async (t) => {
  const [ring, place, after] = [example<Ring>('ring'), example<Place>('place'), example<After>('after')]
  const kept = example<KeptTrigger>('trigger')
  const history = historyOf(place.position)
  const read = async (entries: Record<string, unknown>, of = history) => {
    const state = mapState()
    await state.transaction((tx) => {
      for (const [key, value] of Object.entries(entries)) tx.put(key, value)
    })
    return new Store(state, true, of).read('acme', (key) => t.fail(key))
  }
  const definition = { 'trigger/acme/hot': kept, [`after/acme/${kept.id}/${history}`]: after }
  const now = await read({ ...definition, 'place/acme/': ring, [`reader/acme/${history}`]: place })
  t.match(now, { ring, place, triggers: [{ name: 'hot', after: after.position }], unplaced: [] })
  t.match(await read({ ...definition, 'place/acme/': ring, [`reader/acme/${history}`]: place }, 'f'.repeat(16)), {
    place: undefined,
    unplaced: [{ name: 'hot' }],
  })
  const enabledAgain = { ...definition, 'trigger/acme/hot': { ...kept, enabled_at: after.enabled_at + 1 } }
  t.match(await read(enabledAgain), { unplaced: [{ name: 'hot' }] })
  const { until, version: _, ...former } = place
  const formerly = await read({ 'trigger/acme/hot': { ...kept, after: after.position }, 'place/acme/': { ...ring, ...former } })
  t.match(formerly, { ring, place: { ...former, version: 0, until }, triggers: [{ after: after.position }], unplaced: [] })
})
