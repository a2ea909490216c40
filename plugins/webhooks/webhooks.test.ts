/** Deliveries over real connections: what receivers get, and what they can do to the server and to one another. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { HTTP } from 'cloudevents'
import { Webhook } from 'standardwebhooks'
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { at, delivery, makeCertificate, metric, ok, openNode, receive, SECRETS, start, status } from './testing.ts'

t.test('a receiver verifies the signature by each secret and reads a CloudEvent', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate)
  const { hooks, node, reports } = await start(t, { ca_file: certificate.caFile })
  await hooks.define(at('a'), `${receiver.url}/in?key=1#part`)
  const given = delivery('a', 'e-1', { text: 'it’s hot', n: [1.5, null] })
  t.same(await hooks.enqueue([given, delivery('a', 'e-1'), delivery('nowhere', 'e-1')]), ['queued', 'known', 'unrouted'])
  await until('the delivery', () => reports.some(({ result }) => result === 'delivered'))
  t.equal(receiver.received.length, 1)
  const [{ headers, body, path }] = receiver.received
  t.equal(path, '/in?key=1')
  t.match(headers['webhook-id'], /^msg_[0-9a-f]{32}$/)
  t.match(headers['webhook-signature'], /^v1,\S+ v1,\S+$/)
  for (const secret of SECRETS) t.same(new Webhook(secret).verify(body, headers as Record<string, string>), JSON.parse(body))
  t.throws(() => new Webhook('whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA').verify(body, headers as Record<string, string>))
  t.throws(() => new Webhook(SECRETS[0]).verify(body.replace('hot', 'cold'), headers as Record<string, string>))
  const event = HTTP.toEvent({ headers, body })
  t.match(event, {
    specversion: '1.0',
    id: 'e-1',
    source: 'svc:trigger/hot',
    type: 'io.svc.signal.fired',
    time: '2023-11-14T22:13:20.000Z',
    datacontenttype: 'application/json',
    data: given.event.data as object,
  })
  t.match(reports[0], { endpoint: at('a'), id: 'e-1', result: 'delivered' })
  t.same(await hooks.enqueue([delivery('a', 'x'.repeat(257))]), ['too_large'], 'an id that long')
  // Handed over again after it was delivered, as after a crash of the caller.
  t.same(await hooks.enqueue([given]), ['known'])
  await until('the outbox is empty', async () => (await hooks.list('teller'))[0].waiting === 0)
  t.match(await hooks.list('teller'), [{ origin: receiver.url, state: 'active', delivered: 1, lost: 0, waiting_bytes: 0 }])
  t.same(await hooks.list('other'), [])
  t.equal(await metric(node, 'svc_webhook_deliveries_total{result="delivered"}'), 1)
  t.equal(await metric(node, 'svc_webhook_attempts_total{result="2xx"}'), 1)
  t.equal(await metric(node, 'svc_webhook_deliveries_handed_over_total{answer="known"}'), 2)
  t.equal(await metric(node, 'svc_webhook_queue_length'), 0)
  t.equal(receiver.received.length, 1)
})

t.test('what a receiver answers decides: 2xx is taken, 410 parks, all else is tried again', async (t) => {
  const certificate = await makeCertificate(t)
  const { hooks, reports, node } = await start(t, { ca_file: certificate.caFile })
  for (const code of [302, 400, 401, 404, 408, 413, 422, 429, 500, 502, 503]) {
    const elsewhere = await receive(t, certificate)
    const receiver = await receive(t, certificate, status(code, { location: `${elsewhere.url}/` }))
    const name = `s${code}`
    await hooks.define(at(name), receiver.url)
    await hooks.enqueue([delivery(name, name)])
    await until(`attempts after ${code}`, () => receiver.received.length >= 3)
    const [mine] = (await hooks.list('teller')).filter((each) => each.name === name)
    t.match(mine, { state: 'failing', waiting: 1, reason: new RegExp(`it answered ${code}`) })
    receiver.answer = ok
    await until(`the delivery after ${code}`, () => reports.some(({ id, result }) => id === name && result === 'delivered'))
    const ids = new Set(receiver.received.map(({ headers }) => headers['webhook-id']))
    t.equal(ids.size, 1, 'each attempt has the same id')
    t.equal(elsewhere.connections, 0, 'redirects are not followed')
    await until('it is good again', async () => (await hooks.list('teller')).every((each) => each.name !== name || each.state === 'active'))
  }
  t.ok((await metric(node, 'svc_webhook_retries_total')) >= 22)
  const gone = await receive(t, certificate, status(410))
  await hooks.define(at('gone'), `${gone.url}/secret-path`)
  await hooks.enqueue([delivery('gone', 'g1'), delivery('gone', 'g2')])
  const parked = async () => (await hooks.list('teller')).find((each) => each.name === 'gone')
  await until('parked', async () => (await parked())?.state === 'parked')
  const calls = gone.received.length
  t.same(await hooks.enqueue([delivery('gone', 'g3')]), ['queued'])
  await wait(300)
  t.equal(gone.received.length, calls, 'nothing is sent to it')
  t.equal(await metric(node, 'svc_webhook_endpoints{state="parked"}'), 1)
  const listed = (await node.inject('/api/v1/admin/webhooks?state=parked')).json()
  t.match(listed, { total: 1, items: [{ name: 'gone', reason: 'it answered 410 Gone', waiting: 3, origin: gone.url }] })
  t.notMatch(JSON.stringify(listed), 'secret-path')
  const { items } = (await node.inject('/api/v1/admin/webhooks')).json()
  const page = (await node.inject(`/api/v1/admin/webhooks?offset=1&limit=2&namespace=${items[0].namespace}`)).json()
  t.same(page, { items: items.slice(1, 3), total: items.length, offset: 1, limit: 2 })
  gone.answer = ok
  const rearmed = await node.inject({ method: 'POST', url: '/api/v1/admin/webhooks/default/teller/gone/rearm' })
  t.match(rearmed.json(), { rearmed: true, endpoint: { name: 'gone', state: 'active' } })
  await until('all three', async () => (await parked())?.delivered === 3)
  gone.answer = status(410)
  await hooks.enqueue([delivery('gone', 'g4')])
  await until('parked again', async () => (await parked())?.state === 'parked')
  gone.answer = ok
  await hooks.define(at('gone'), gone.url)
  await until('sent after a definition', async () => (await parked())?.delivered === 4)
  const missing = await node.inject({ method: 'POST', url: '/api/v1/admin/webhooks/default/teller/missing/rearm' })
  t.match([missing.statusCode, missing.json().code], [404, 'NOT_FOUND'])
})

t.test('what a URL answers says nothing of the one that the endpoint was given meanwhile', async (t) => {
  const certificate = await makeCertificate(t)
  const { hooks, logged } = await start(t, { ca_file: certificate.caFile, timeout_secs: 30 })
  const answers: (() => void)[] = []
  const old = await receive(t, certificate, (_, response) => void answers.push(() => response.writeHead(410).end()))
  const other = await receive(t, certificate)
  await hooks.define(at('a'), old.url)
  await hooks.enqueue([delivery('a', 'e-1')])
  await until('it is under way', () => answers.length === 1)
  await hooks.define(at('a'), other.url)
  answers[0]()
  await until('it is sent to the other', async () => other.received.length === 1 && (await hooks.list('teller'))[0].delivered === 1)
  t.match(await hooks.list('teller'), [{ origin: other.url, state: 'active', waiting: 0 }])
  t.notOk(logged.some((line) => line.includes('parked')))
})

t.test('one attempt of a caller says what it came to, and with which status', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, status(401))
  const { hooks } = await start(t, { ca_file: certificate.caFile })
  const { event } = delivery('none', 'e-1')
  t.same(await hooks.send(receiver.url, event), { result: 'failed', reason: 'it answered 401', status: 401 })
  receiver.answer = ok
  t.same(await hooks.send(receiver.url, event), { result: 'taken', reason: '' })
  receiver.answer = (_, __, socket) => void socket.destroy()
  const lost = await hooks.send(receiver.url, event)
  t.match(lost, { result: 'failed' })
  t.notOk('status' in lost, 'it has not answered')
  const unsigned = await start(t, { ca_file: certificate.caFile, signing_secrets: [] })
  const before = receiver.connections
  t.match(await unsigned.hooks.send(receiver.url, event), { result: 'failed', reason: /there is no key to sign deliveries with/ })
  t.equal(receiver.connections, before, 'nothing is sent unsigned')
})

t.test('Retry-After is honoured, within a cap', async (t) => {
  const certificate = await makeCertificate(t)
  const first =
    (headers: Record<string, string>) =>
    (number = 0) =>
      ((_, response) => void response.writeHead(number++ === 0 ? 503 : 204, headers).end()) as typeof ok
  const { hooks } = await start(t, { ca_file: certificate.caFile, retry_after_max_secs: 1 })
  for (const [name, headers, least] of [
    ['seconds', { 'retry-after': '1' }, 950],
    ['date', { 'retry-after': new Date(Date.now() + 3_600_000).toUTCString() }, 950],
    ['huge', { 'retry-after': '9'.repeat(400) }, 950],
    ['nonsense', { 'retry-after': '2030' + '-01-01' }, 0],
  ] as const) {
    const receiver = await receive(t, certificate, first(headers)())
    await hooks.define(at(name), receiver.url)
    await hooks.enqueue([delivery(name, name)])
    await until(`a second attempt: ${name}`, () => receiver.received.length === 2, 5000)
    const pause = receiver.received[1].at - receiver.received[0].at
    t.ok(pause >= least && pause < 3000, `${name}: ${pause} ms`)
    if (least === 0) t.ok(pause < 900, `${name}: ${pause} ms`)
  }
})

t.test('an event that its receiver cannot take holds up no other, and is given up', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, (request, response) => void response.writeHead(request.body.includes('"poison"') ? 500 : 204).end())
  let ahead = 0
  const clock = { ...systemClock, now: () => Date.now() + ahead, monotonic: () => systemClock.monotonic() + ahead }
  const { hooks, reports, node } = await start(t, { ca_file: certificate.caFile, max_age_secs: 3600 }, { clock })
  await hooks.define(at('a'), receiver.url)
  await hooks.enqueue([delivery('a', 'poison'), ...Array.from({ length: 50 }, (_, i) => delivery('a', `e${i}`))])
  await until('the others', async () => (await hooks.list('teller'))[0].delivered === 50)
  t.match(await hooks.list('teller'), [{ waiting: 1, lost: 0 }])
  ahead = 3_601_000
  await until('it is given up', async () => (await hooks.list('teller'))[0].lost === 1)
  t.match(await hooks.list('teller'), [{ waiting: 0, lost: 1 }])
  t.match(reports.at(-1), { id: 'poison', result: 'expired' })
  t.equal(await metric(node, 'svc_webhook_deliveries_total{result="expired"}'), 1)
})

t.test('an endpoint that takes nothing for too long is parked, and what waits is bounded and given up too', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, status(404))
  const section = { ca_file: certificate.caFile, park_after_secs: 1, max_age_secs: 100_000, queue_size: 3 }
  const { hooks, reports, node } = await start(t, section)
  await hooks.define(at('a'), receiver.url)
  await hooks.enqueue([delivery('a', 'e0')])
  // In time that passes: a clock that jumps is a standstill to nodes that share their state.
  await until('parked', async () => (await hooks.list('teller'))[0].state === 'parked')
  t.match(await hooks.list('teller'), [{ reason: 'it has taken nothing for too long: it answered 404' }])
  await hooks.enqueue(Array.from({ length: 9 }, (_, i) => delivery('a', `e${i + 1}`)))
  t.match(await hooks.list('teller'), [{ waiting: 3, lost: 7 }])
  t.equal(await metric(node, 'svc_webhook_deliveries_total{result="dropped"}'), 7)
  t.same(
    reports.filter(({ result }) => result === 'dropped').map(({ id }) => id),
    ['e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6'],
  )
  t.equal(await metric(node, 'svc_webhook_queue_length'), 3)
  t.ok((await metric(node, 'svc_webhook_queue_bytes')) > 300)
  receiver.answer = ok
  await hooks.define(at('a'), receiver.url)
  await until('the newest three', async () => (await hooks.list('teller'))[0].delivered === 3)
  t.same(
    receiver.received
      .slice(-3)
      .map(({ body }) => JSON.parse(body).id)
      .sort(),
    ['e7', 'e8', 'e9'],
  )
})

t.test('a wall clock that jumps ahead gives nothing up and parks nothing, also when it does so while no server runs', async (t) => {
  const TEN_DAYS = 864_000_000
  let ahead = 0
  const clock = { ...systemClock, now: () => Date.now() + ahead }
  const folder = mkdtempSync(join(tmpdir(), 'svc-webhooks-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const receiver = await receive(t, undefined, status(503))
  const first = await openNode(folder, {}, clock)
  await first.hooks.define(at('a'), receiver.url)
  await first.hooks.enqueue([delivery('a', 'e1'), delivery('a', 'e2')])
  await until('failing', async () => (await first.hooks.list('teller'))[0].state === 'failing')
  ahead = TEN_DAYS
  const before = receiver.received.length
  await until('further attempts', () => receiver.received.length >= before + 3)
  t.match(await first.hooks.list('teller'), [{ state: 'failing', waiting: 2, lost: 0 }])
  await first.stop()

  ahead = 2 * TEN_DAYS
  const second = await openNode(folder, {}, clock)
  const restarted = receiver.received.length
  await until('attempts after the restart', () => receiver.received.length >= restarted + 3)
  t.match(await second.hooks.list('teller'), [{ state: 'failing', waiting: 2, lost: 0 }])
  receiver.answer = ok
  await until('both', async () => (await second.hooks.list('teller'))[0].delivered === 2)
  t.match(await second.hooks.list('teller'), [{ state: 'active', waiting: 0, lost: 0 }])
  await second.stop()
})

t.test('hostile receivers: endless bodies and heads, silence, wrong names, broken answers', async (t) => {
  const certificate = await makeCertificate(t)
  const wrong = await makeCertificate(t, [{ type: 'dns', value: 'other.example' }])
  const { hooks, node, reports } = await start(t, { ca_file: certificate.caFile, timeout_secs: 2, retry_initial_secs: 0.2, retry_max_secs: 1 })
  const cases: Record<string, [Awaited<ReturnType<typeof receive>>, RegExp]> = {
    silent: [await receive(t, certificate, () => {}), /no answer within 2 s/],
    closing: [await receive(t, certificate, (_, response) => void response.socket?.destroy()), /./],
    head: [
      await receive(t, certificate, (_, response) => {
        response.writeHead(200, { 'x-long': 'x'.repeat(100_000) }).end()
      }),
      /[Hh]eader/,
    ],
    informing: [
      await receive(t, certificate, (_, response) => {
        const timer = setInterval(() => (response.destroyed ? clearInterval(timer) : response.writeProcessing()), 5)
        response.on('close', () => clearInterval(timer))
      }),
      /no answer within 2 s/,
    ],
    nonsense: [await receive(t, certificate, (_, __, socket) => void socket.end('GO AWAY\r\n\r\n')), /./],
    wrong: [await receive(t, wrong), /certificate/],
  }
  for (const [name, [receiver]] of Object.entries(cases)) await hooks.define(at(name), receiver.url)
  const good = await receive(t, certificate)
  await hooks.define(at('good'), good.url)
  await hooks.enqueue([...Object.keys(cases), 'good'].map((name) => delivery(name, name)))
  await until('all have failed', () => Object.keys(cases).every((name) => reports.some(({ id, result }) => id === name && result === 'retried')))
  t.equal(good.received.length, 1)
  // Where a machine was too slow for the first attempt, the next one says what is wrong.
  for (const [name, [, reason]] of Object.entries(cases)) {
    await until(`${name} fails as it should`, async () =>
      (await hooks.list('teller')).some((status) => status.name === name && status.state === 'failing' && reason.test(String(status.reason))),
    )
  }
  t.equal(cases.wrong[0].received.length, 0, 'nothing is sent to a server of another name')
  t.ok((await metric(node, 'svc_webhook_attempts_total{result="tls"}')) >= 1)

  // The head decides; an endless body is cut, and costs no memory.
  let sent = 0
  const endless = await receive(t, certificate, (_, response) => {
    const chunk = Buffer.alloc(65_536)
    response.writeHead(200)
    const more = () => {
      while (!response.destroyed && response.write(chunk)) sent += chunk.length
    }
    response.on('drain', more).on('error', () => {})
    more()
  })
  await hooks.define(at('endless'), endless.url)
  await hooks.enqueue([delivery('endless', 'endless')])
  await until('it is taken', () => reports.some(({ id, result }) => id === 'endless' && result === 'delivered'))
  t.equal(endless.received.length, 1)
  let before = -1
  await until('no more is sent', async () => {
    before = sent
    await wait(200)
    return sent === before
  })
})

t.test('a receiver that is killed and comes back gets everything', async (t) => {
  const certificate = await makeCertificate(t)
  let receiver = await receive(t, certificate)
  const seen = new Set<string>()
  const { hooks } = await start(t, { ca_file: certificate.caFile })
  await hooks.define(at('a'), receiver.url)
  const sent: string[] = []
  const flap = async () => {
    for (let i = 0; i < 6; i++) {
      await wait(150)
      await receiver.close()
      await wait(100)
      const { port } = receiver
      for (const { body } of receiver.received) seen.add(JSON.parse(body).id)
      receiver = await receive(t, certificate, i % 2 ? ok : status(503), port)
      await wait(60)
      receiver.answer = ok
    }
  }
  const flapping = flap()
  for (let i = 0; i < 300; i++) {
    await hooks.enqueue([delivery('a', `e${i}`)])
    sent.push(`e${i}`)
    await wait(3)
  }
  await flapping
  await until('all', async () => (await hooks.list('teller'))[0].delivered === 300)
  for (const { body } of receiver.received) seen.add(JSON.parse(body).id)
  t.same(
    sent.filter((id) => !seen.has(id)),
    [],
  )
})

t.test('keys and bodies are shown nowhere, and without a key nothing is taken', async (t) => {
  const { hooks, node, logged } = await start(t, {})
  await hooks.define(at('a'), 'http://localhost:1/token-in-path')
  await hooks.enqueue([delivery('a', 'e', { password: 'hunter22' })])
  await until('a failure', async () => (await hooks.list('teller'))[0].state === 'failing')
  for (const text of [logged.join(''), (await node.inject('/api/v1/admin/webhooks')).body])
    for (const secret of [...SECRETS, 'token-in-path', 'hunter22']) t.notOk(text.includes(secret.replace('whsec_', '')), secret)
  const without = await start(t, { signing_secrets: [] })
  await t.rejects(without.hooks.define(at('a'), 'https://example.com/'), { code: 'BAD_REQUEST', message: /no key to sign .*webhooks\.signing_secrets/ })
  const short = await start(t, { signing_secrets: ['whsec_c2hvcnQ='] }).catch((error: Error) => error.message)
  t.match(short, /cannot use webhooks\.signing_secrets\[0\]: it is not the base64 of 24 bytes or more/)
  t.notMatch(short, 'c2hvcnQ')
  await t.rejects(start(t, { ca_file: '/nowhere.pem' }), /cannot use webhooks\.ca_file "\/nowhere\.pem": ENOENT.*; name a PEM file of certificates/)
  await t.rejects(start(t, { ca_file: import.meta.filename }), /cannot use webhooks\.ca_file ".*": it has no certificate/)
})
