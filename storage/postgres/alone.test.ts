/** A command that works on the state store alone, and nodes: who has lost the connection that says so does nothing there that the other does not expect. */
import t, { type Test } from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { eventually } from '../../test/support/until.ts'
import type { PostgresState } from './postgres-state.ts'
import { openState } from './testing.ts'

const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  real(postgres)
}

function real(postgres: TestPostgres): void {
  const closing = (t: Test, state: PostgresState): PostgresState => {
    t.teardown(() => state.close())
    return state
  }
  const put = (state: PostgresState, value: number) => state.state('one').transaction((tx) => tx.put('k', value))
  const linkTo = async (t: Test): Promise<FaultyLink> => {
    const link = await FaultyLink.to(postgres.port)
    t.teardown(() => link.close())
    return link
  }
  const through = (url: string, link: FaultyLink): string => url.replace(`:${postgres.port}`, `:${link.port}`)
  const codeOf = (act: Promise<unknown>): Promise<string | undefined> =>
    act.then(
      () => undefined,
      (error: { code?: string }) => error.code,
    )

  t.test('a node that comes back while a command works alone does nothing until that is over', async (t) => {
    const url = await postgres.database()
    const link = await linkTo(t)
    const node = closing(t, await openState(through(url, link), { retry_secs: 0.2 }))
    await put(node, 1)
    link.cut()
    await t.rejects(node.state('one').get('k'), { code: 'OVERLOADED' })
    const alone = closing(t, await openState(url, { retry_secs: 20 }, 'exclusive'))
    link.mend()
    await eventually(async () => (await codeOf(node.state('one').get('k'))) === 'CONFLICT')
    await put(alone, 2)
    await t.rejects(put(node, 3), { code: 'CONFLICT', message: /a command works on it alone/ })
    await alone.close()
    await eventually(async () => (await codeOf(node.state('one').get('k'))) === undefined)
    t.equal(await node.state('one').get('k'), 2)
    await put(node, 4)
    t.equal(await node.state('one').get('k'), 4, 'and then it goes on')
  })

  t.test('a command that has lost its connection does not go on: nodes may have come', async (t) => {
    const url = await postgres.database()
    const link = await linkTo(t)
    const alone = closing(t, await openState(through(url, link), { retry_secs: 0.2 }, 'exclusive'))
    await put(alone, 1)
    link.cut()
    await t.rejects(alone.state('one').get('k'), { code: 'OVERLOADED' })
    const node = closing(t, await openState(url))
    link.mend()
    await t.rejects(put(alone, 2), { code: 'OVERLOADED', message: /the connection that kept others away was lost; run the command again/ })
    await t.rejects(alone.state('one').get('k'), { code: 'OVERLOADED', message: /run the command again/ })
    t.equal(await node.state('one').get('k'), 1)
  })
}
