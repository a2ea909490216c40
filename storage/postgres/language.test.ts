/** A PostgreSQL that says its errors in another language: what they mean is in their codes. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { NO_POSTGRES, startPostgres } from '../../test/support/postgres.ts'
import { openState } from './testing.ts'

const postgres = await startPostgres()
t.teardown(() => postgres?.stop())

t.test('a statement that is refused is not tried again', { skip: postgres === undefined && NO_POSTGRES }, async (t) => {
  if (postgres === undefined) return
  const sockets: Socket[] = []
  const proxy = createServer((client) => {
    const server = connect(postgres.port, '127.0.0.1')
    for (const socket of [client, server]) sockets.push(socket.on('error', () => {}).on('close', () => [client, server].forEach((one) => void one.destroy())))
    client.pipe(server)
    // As long as the word that it takes the place of: the field with the severity in the language of the server.
    server.on('data', (bytes) => void client.write(Buffer.from(bytes.toString('latin1').replaceAll('SERROR\0', 'SFELIL\0'), 'latin1')))
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const direct = await postgres.database()
  const name = direct.split('/').at(-1) as string
  const url = direct.replace(`:${postgres.port}/`, `:${(proxy.address() as AddressInfo).port}/`)
  const state = await openState(url, { retry_secs: 0.5 })
  t.teardown(() => state.close())
  const refuse = `CREATE SEQUENCE tries; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'no' USING ERRCODE = '22023'; END $$`
  await postgres.query(`${refuse}; CREATE TRIGGER refuses BEFORE INSERT ON svc.state FOR EACH ROW EXECUTE FUNCTION refuse()`, name)
  await t.rejects(
    state.state('one').transaction((tx) => tx.put('k', 1)),
    { code: 'OVERLOADED', message: /PostgreSQL: no; nothing has changed/ },
  )
  t.same(await postgres.query('SELECT last_value::int AS tries FROM tries', name), [{ tries: 1 }])
})
