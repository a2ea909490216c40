/** Turns of the event loop that others had while something was done. */
export async function turnsDuring(act: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let next: NodeJS.Immediate
  const tick = (): void => {
    turns++
    next = setImmediate(tick)
  }
  next = setImmediate(tick)
  try {
    await act()
  } finally {
    clearImmediate(next)
  }
  return turns
}
