import { Float64, TimestampNanosecond, Utf8 } from 'apache-arrow'
import { definePlugin, type Identity, tokenOf as tokenOfCall } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { command, descriptor, type FlightClient, field, message, startFlight } from './testing.ts'
import { type Column, flightStream } from './testing-stream.ts'

const known = (principal: string, namespaces: string[] = []): Identity => ({ principal, method: 'api_key', claims: {}, namespaces, admin: false })

/** Keys `reader`, `writer` and `confined` (to the namespace red); `revoked` holds those taken away. */
function keys(revoked = new Set<string>()) {
  return definePlugin({
    id: 'keys',
    summary: 'Knows keys',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(({ header }) => {
        const token = tokenOfCall({ header })
        if (token === undefined) return undefined
        if (revoked.has(token) || !['reader', 'writer', 'confined'].includes(token)) return new SvcError('UNAUTHORIZED', 'the key is not known')
        return known(token, token === 'confined' ? ['red'] : [])
      })
      svc.auth.authorizer(({ context, action }) =>
        context.principal === 'reader' && action === 'write' ? new SvcError('FORBIDDEN', 'reader may not write') : undefined,
      )
    },
  })
}

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
const login = (flight: FlightClient, user: string, password: string) => flight.put('Handshake', [], { authorization: basic(user, password) }, true)
async function tokenOf(flight: FlightClient, password: string): Promise<string> {
  const { error, header } = await login(flight, 'anybody', password)
  if (error !== undefined) throw error
  return String(header.get('authorization')[0])
}

t.test('with keys', async (t) => {
  const revoked = new Set<string>()
  const { flight, node } = await startFlight(t, { others: [keys(revoked)] })

  t.test('a login is answered with a token in the header and in the message, which later calls present', async (t) => {
    const { messages, header, error } = await login(flight, 'anybody', 'reader')
    t.equal(error, undefined)
    const authorization = String(header.get('authorization')[0])
    t.match(authorization, /^Bearer [\w-]{32}$/)
    t.equal(`Bearer ${Buffer.from(field(messages[0], 2) as Uint8Array)}`, authorization)
    t.same((await flight.sql('select 1', { authorization })).rows, [{ 1: 1n }])
    t.same((await flight.sql('select 1', { authorization: 'Bearer reader' })).rows, [{ 1: 1n }], 'the key itself works too')
    t.same((await flight.sql('select 1', { authorization: basic('x', 'reader') })).rows, [{ 1: 1n }], 'and so do Basic credentials on every call')
    t.match((await node.inject({ url: '/metrics', headers: { authorization: 'Bearer reader' } })).body, /^svc_flight_sql_sessions 1$/m)
  })

  t.test('the older handshake has it in the payload', async (t) => {
    const { messages, error } = await flight.put('Handshake', [message({ 2: message({ 2: 'anybody', 3: 'reader' }) })])
    t.equal(error, undefined)
    const token = Buffer.from(field(messages[0], 2) as Uint8Array)
    t.same((await flight.sql('select 1', { 'auth-token-bin': token as never })).rows, [{ 1: 1n }])
    t.match((await flight.put('Handshake', [message({ 2: message({ 2: 'anybody', 3: 'wrong' }) })])).error, { code: 16 })
    t.match((await flight.put('Handshake', [])).error, { code: 16 })
  })

  t.test('others are refused', async (t) => {
    t.match((await login(flight, 'anybody', 'wrong')).error, { code: 16, details: /the key is not known/ })
    await t.rejects(flight.sql('select 1'), { code: 16, details: /no credentials were given/ })
    await t.rejects(flight.sql('select 1', { authorization: 'Bearer nothing' }), { code: 16 })
    t.match((await flight.put('DoPut', [])).error, { code: 16 }, 'before anything is read')
  })

  t.test('what a key may not do, its login may not do either', async (t) => {
    const reader = { authorization: await tokenOf(flight, 'reader') }
    const write = [message({ 1: descriptor(command('CommandStatementUpdate', { 1: 'm' })) })]
    t.match((await flight.put('DoPut', write, reader)).error, { code: 7, details: /reader may not write/ })
    const writer = { authorization: await tokenOf(flight, 'writer') }
    t.match((await flight.put('DoPut', write, writer)).error, { code: 3, details: /the stream has no schema/ }, 'it got that far')
    const confined = { authorization: await tokenOf(flight, 'confined') }
    await t.rejects(flight.sql('select 1', { ...confined, 'x-namespace': 'blue' }), { code: 7, details: /other namespaces/ })
    t.same((await flight.sql('select 1', { ...confined, 'x-namespace': 'red' })).rows, [{ 1: 1n }])
    t.same((await flight.sql('select 1', confined)).rows, [{ 1: 1n }], 'the only one it has')
  })

  t.test('names of namespaces are checked', async (t) => {
    for (const name of ['Red', '../red', 'red,blue', 'x'.repeat(64)])
      await t.rejects(flight.sql('select 1', { authorization: 'Bearer reader', 'x-namespace': name }), { code: 3, details: /cannot use namespace/ }, name)
  })

  t.test('a login ends with its key, and with CloseSession', async (t) => {
    const closed = { authorization: await tokenOf(flight, 'writer') }
    t.same(await flight.action('CloseSession', new Uint8Array(0), closed), [message({ 1: 1 })])
    await t.rejects(flight.sql('select 1', closed), { code: 16 })
    const authorization = await tokenOf(flight, 'writer')
    revoked.add('writer')
    await t.rejects(flight.sql('select 1', { authorization }), { code: 16 })
    revoked.delete('writer')
    t.same((await flight.sql('select 1', { authorization })).rows, [{ 1: 1n }])
  })
})

t.test('a put is one call, on record as what its first message makes of it', async (t) => {
  const told: string[] = []
  let limited = 0
  const others = [
    keys(),
    definePlugin({
      id: 'recorder',
      summary: 'Keeps what was decided',
      stability: 'stable',
      setup(svc) {
        svc.auth.limiter({ admitted: () => void limited++ })
        svc.auth.observer(({ outcome, stage, action, resource, credentials, identity }) => {
          if (resource.endsWith('/DoPut')) told.push([outcome, stage, action, credentials.protocol, identity?.principal].join(' '))
        })
      },
    }),
  ]
  const { flight } = await startFlight(t, { others })
  const values: Column[] = [{ name: '1', type: new Utf8(), values: ['a'] }]
  const rows: Column[] = [
    { name: '_time', type: new TimestampNanosecond(), values: [BigInt(Date.now()) * 1_000_000n] },
    { name: 'v', type: new Float64(), values: [1] },
  ]
  const update = descriptor(command('CommandStatementUpdate', { 1: 'm' }))
  for (const [key, prepares, code, decisions] of [
    ['reader', true, undefined, ['allow authorization read flight reader']],
    ['writer', true, undefined, ['allow authorization read flight writer']],
    ['reader', false, 7, ['deny authorization write flight reader']],
    ['writer', false, undefined, ['allow authorization write flight writer']],
    ['wrong', false, 16, ['deny authentication write flight ']],
  ] as const) {
    const caller = { authorization: `Bearer ${key}` }
    let to = update
    if (prepares) {
      const [result] = await flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: 'SELECT $1::VARCHAR AS v' }), caller)
      to = descriptor(command('CommandPreparedStatementQuery', { 1: field(field(result, 2) as Uint8Array, 1) }))
    }
    told.length = 0
    limited = 0
    t.equal((await flight.put('DoPut', flightStream(to, [prepares ? values : rows]), caller)).error?.code, code, `${key}, ${prepares ? 'values' : 'rows'}`)
    t.same(told, decisions)
    t.equal(limited, key === 'wrong' ? 0 : 1, 'it counts once')
  }
})

t.test('a stream of rows ends once its key is revoked', async (t) => {
  /** How often it is asked about while it still stands. */
  let standing = Number.POSITIVE_INFINITY
  const keys = definePlugin({
    id: 'keys',
    summary: 'Knows keys',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(() => ({ ...known('writer'), revoked: () => standing-- <= 0 }))
    },
  })
  const { flight } = await startFlight(t, { others: [keys] })
  const start = BigInt(Date.now()) * 1_000_000n
  const rows = (at: number): Column[] => [
    { name: '_time', type: new TimestampNanosecond(), values: [start + BigInt(at)] },
    { name: 'v', type: new Float64(), values: [1] },
  ]
  const batches = Array.from({ length: 10 }, (_, at) => rows(at))
  const stream = (name: string): Uint8Array[] => flightStream(descriptor(command('CommandStatementUpdate', { 1: name })), batches)
  t.equal((await flight.put('DoPut', stream('m'))).error, undefined)
  standing = 5
  t.match((await flight.put('DoPut', stream('n'))).error, { code: 16, details: /the credential was revoked or has expired/ })
  standing = Number.POSITIVE_INFINITY
  t.same((await flight.sql('SELECT count(*) AS n FROM m')).rows, [{ n: 10n }])
})

t.test('a login asks nobody what its key may do', async (t) => {
  const told: string[] = []
  const observer = definePlugin({
    id: 'recorder',
    summary: 'Keeps what was decided',
    stability: 'stable',
    setup(svc) {
      svc.auth.authorizer(({ context, action }) =>
        context.principal === 'writer' && action === 'read' ? new SvcError('FORBIDDEN', 'it only writes') : undefined,
      )
      svc.auth.observer(({ outcome, stage, identity }) => void told.push([outcome, stage, identity?.principal].join(' ')))
    },
  })
  const { flight } = await startFlight(t, { others: [keys(), observer] })
  const authorization = await tokenOf(flight, 'writer')
  t.same(told, [])
  t.match((await login(flight, 'anybody', 'wrong')).error, { code: 16 })
  await t.rejects(flight.sql('select 1', { authorization }), { code: 7, details: /it only writes/ })
  t.same(told, ['deny authentication ', 'deny authorization writer'])
})

t.test('without authenticators every login works', async (t) => {
  const { flight } = await startFlight(t)
  const authorization = await tokenOf(flight, 'anything')
  t.same((await flight.sql('select 1', { authorization })).rows, [{ 1: 1n }])
  t.same((await flight.sql('select 1')).rows, [{ 1: 1n }])
})

t.test('logins are bounded in number and time', async (t) => {
  let monotonic = 0
  const clock = { ...systemClock, now: Date.now, nowNanos: () => BigInt(Date.now()) * 1_000_000n, monotonic: () => monotonic }
  const { flight } = await startFlight(t, { others: [keys()], clock, section: { max_sessions: 2, session_lifetime_secs: 10 } })
  const [first, second] = [await tokenOf(flight, 'reader'), await tokenOf(flight, 'reader')]
  await flight.sql('select 1', { authorization: first })
  const third = await tokenOf(flight, 'reader')
  await t.rejects(flight.sql('select 1', { authorization: second }), { code: 16 }, 'the one used longest ago went')
  monotonic += 9000
  await flight.sql('select 1', { authorization: first })
  monotonic += 9000
  await flight.sql('select 1', { authorization: first })
  await t.rejects(flight.sql('select 1', { authorization: third }), { code: 16 }, 'not used for too long')
})

t.test('however a caller writes its credentials, it has one share of the logins', async (t) => {
  const { flight } = await startFlight(t, { others: [keys()], section: { max_sessions: 4 } })
  const authorization = await tokenOf(flight, 'reader')
  const spellings = ['Bearer', 'bearer', 'BEARER', 'bEARER', 'BeArEr', 'Token', 'token', 'TOKEN']
  const logins = async (more: Record<string, string> = {}) => {
    for (const scheme of spellings) {
      const { error } = await flight.put('Handshake', [], { authorization: `${scheme} confined`, ...more })
      t.equal(error, undefined, scheme)
    }
  }
  await logins()
  t.same((await flight.sql('select 1', { authorization })).rows, [{ 1: 1n }], 'the login of another stands')
  await logins({ 'x-namespace': 'blue' })
  t.same((await flight.sql('select 1', { authorization })).rows, [{ 1: 1n }], 'and where it may not read what it asks for')
})

t.test('a login that says nothing is ended', async (t) => {
  const { flight } = await startFlight(t, { others: [keys()], section: { handshake_timeout_secs: 0.5 } })
  t.match((await flight.put('Handshake', [], {}, true)).error, { code: 3, details: /cannot log in: no message with credentials came in time/ })
  await until('another may log in', async () => (await login(flight, 'anybody', 'reader')).error === undefined)
})
