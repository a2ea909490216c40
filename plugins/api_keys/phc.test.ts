/** Hashes against the library's own verification, and strings that are none. */
import { hash, verify } from 'argon2'
import t from 'tap'
import { hashText, hasUsualCost, matches, type Phc, parsePhc } from './phc.ts'
import { fuzz } from './tokens.fuzz.ts'

const parsed = (text: string): Phc => {
  const phc = parsePhc(text)
  if (typeof phc === 'string') throw new Error(phc)
  return phc
}

t.test('what is made here is Argon2id of 19 MiB and 2 passes, and others can verify it', async (t) => {
  const phc = await hashText('a key')
  t.match(phc.text, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  t.ok(await verify(phc.text, 'a key'))
  t.notOk(await verify(phc.text, 'a kez'))
  t.ok(await matches(parsed(phc.text), 'a key'))
  t.notOk(await matches(phc, 'a key '))
  t.ok(hasUsualCost(phc))
  t.not((await hashText('a key')).text, phc.text)
})

t.test('what others made can be verified here', async (t) => {
  for (const [type, version] of [
    [2, 19],
    [1, 19],
    [0, 16],
  ] as const) {
    const phc = parsed(await hash('ünïcode', { type, version, memoryCost: 64, timeCost: 3, parallelism: 2, hashLength: 24 }))
    t.ok(await matches(phc, 'ünïcode'))
    t.notOk(await matches(phc, 'unicode'))
    t.notOk(hasUsualCost(phc))
  }
  // A string of the reference implementation, without a version: 1.0.
  const old = '$argon2i$m=65536,t=2,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ'
  t.ok(await matches(parsed(old), 'password'))
})

t.test('what is no hash', async (t) => {
  const good = (await hashText('x')).text
  for (const bad of [
    '',
    '$',
    'argon2id',
    good.slice(1),
    good.slice(0, -30),
    `${good}$`,
    `${good}\n`,
    good.replace('v=19', 'v=20'),
    good.replace('argon2id', 'bcrypt'),
  ])
    t.type(parsePhc(bad), 'string', bad.slice(0, 40))
  for (const change of ['m=262145,t=2,p=1', 'm=19456,t=17,p=1', 'm=19456,t=2,p=17', 'm=8,t=2,p=2', 'm=19456,t=0,p=1', 'm=19456,t=2,x=1', 'm=19456,t=2,t=2'])
    t.type(parsePhc(good.replace('m=19456,t=2,p=1', change)), 'string', change)
})

t.test('random headers are let in exactly if they carry a key that stands', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  t.ok((await fuzz(seed, (tried) => tried < 10_000)) >= 10_000)
})
