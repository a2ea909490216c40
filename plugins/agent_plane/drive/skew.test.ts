/** Processes whose clocks differ share the runs of a tenant: none takes over what another one does. */
import t from 'tap'
import { LeaseWatch } from '../store/leases.ts'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'
import type { Driver } from './driver.ts'

for (const [name, skew] of Object.entries({ 'ahead by more than a lease': 3 * LEASE_MS, 'late by many leases': -10 * LEASE_MS }))
  t.test(`a run goes on beside a process whose clock is ${name}, and is taken up when its own has died`, async (t) => {
    let done = (): void => {}
    let begun = (): void => {}
    let calls = 0
    const beginning = () =>
      new Promise<void>((resolve) => {
        begun = resolve
      })
    const pay = skill('pay', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: false }, async () => {
        calls++
        begun()
        await new Promise<void>((resolve) => {
          done = resolve
        })
        return 'paid'
      }),
    )
    const { driver, clock } = await controlled([pay])
    let renew = (): void => {}
    const one = driver({
      every: (_, act) => {
        renew = act
        return () => {}
      },
    })
    let passed = 0
    const other = driver({ now: () => clock.now + skew, watch: new LeaseWatch(LEASE_MS, () => passed) })
    const { run, epoch } = await one.admit({ capability: 'pay', input: null, actor: 'ann' })
    const isUnderWay = beginning()
    const driving = one.drive(run, epoch)
    await isUnderWay
    const later = async (ms: number) => {
      clock.now += ms
      passed += ms
      await new Promise((resolve) => setImmediate(resolve))
    }
    const looks = async (by: Driver) => (await by.due(10)).length
    for (let i = 0; i < 12; i++) {
      await later(LEASE_MS / 3)
      renew()
      await later(0)
      t.equal(await looks(other), 0)
      t.equal(await other.drive(run), 'running', 'nor when it is asked to')
    }
    done()
    t.equal(await driving, 'succeeded')
    t.equal(calls, 1)

    const dead = await one.admit({ capability: 'pay', input: null, actor: 'ann' })
    const diesMeanwhile = beginning()
    void one.drive(dead.run, dead.epoch)
    await diesMeanwhile
    await later(LEASE_MS)
    t.equal(await looks(other), 0, 'seen for the first time')
    for (let i = 0; i < 4; i++) await later(LEASE_MS)
    t.equal(await looks(other), 1, 'it has stood still for a lease')
    const isTakenUp = beginning()
    const taken = other.drive(dead.run)
    await isTakenUp
    done()
    t.equal(await taken, 'succeeded')
  })
