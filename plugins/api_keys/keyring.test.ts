import t from 'tap'
import { type ApiKey, makeKey } from './key.ts'
import { Keyring } from './keyring.ts'
import { dummyPhc } from './phc.ts'

const made = (name: string, more: object = {}): ApiKey =>
  makeKey({ id: name, name, source: 'store', phc: dummyPhc(), lookup: 'AAECAwQF', namespaces: ['red'], admin: false, roles: [], enabled: true, ...more })

t.test('a key that was removed is found no more, and says so to calls that go on', async (t) => {
  const keyring = new Keyring()
  const [indexed, other, everywhere, plain] = [made('indexed'), made('other'), made('everywhere', { lookup: undefined }), made('plain', { phc: undefined })]
  for (const key of [indexed, other, everywhere]) keyring.add(key)
  keyring.add(plain, 'its digest')
  t.same([keyring.size, keyring.unindexed, keyring.known('its digest') === plain], [4, 1, true])
  t.same(keyring.candidates('AAECAwQF'), { indexed: [indexed, other], others: [everywhere] })
  for (const key of [indexed, everywhere, plain]) {
    t.equal(key.identity.revoked?.(), false, key.name)
    keyring.remove(key)
    t.equal(key.identity.revoked?.(), true, key.name)
    t.notOk(keyring.isCurrent(key))
    t.equal(keyring.get(key.name), undefined)
  }
  t.equal(keyring.known('its digest'), undefined)
  t.same(keyring.candidates('AAECAwQF'), { indexed: [other], others: [] })
  t.equal(other.identity.revoked?.(), false)
})

t.test('another key of the same name is not removed in its place', async (t) => {
  const keyring = new Keyring()
  const [old, current] = [made('one'), made('one')]
  keyring.add(old)
  t.throws(() => keyring.add(current), /two keys with the name "one"/)
  keyring.remove(old)
  keyring.add(current)
  keyring.remove(old)
  t.equal(keyring.get('one'), current)
  t.equal(current.gone, false)
})

t.test('a key that is disabled is known, and no candidate', async (t) => {
  const keyring = new Keyring()
  keyring.add(made('off', { enabled: false }))
  t.equal(keyring.size, 1)
  t.same(keyring.candidates('AAECAwQF'), { indexed: [], others: [] })
})
