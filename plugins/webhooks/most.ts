/** Which of many names has the largest number, while numbers change: a heap, so that asking again does not look at all of them. */

export class Most {
  private readonly numbers: Map<string, number>
  /** A heap, the largest first. Entries whose number is another by now are skipped: each change adds one. */
  private readonly heap: [number: number, name: string][]

  constructor(numbers: ReadonlyMap<string, number>) {
    this.numbers = new Map(numbers)
    // What is sorted is a heap.
    this.heap = [...this.numbers].map(([name, number]): [number, string] => [number, name]).sort(before)
  }

  set(name: string, number: number): void {
    if (this.numbers.get(name) === number) return
    this.numbers.set(name, number)
    const { heap } = this
    let at = heap.push([number, name]) - 1
    for (let above = (at - 1) >> 1; at > 0 && before(heap[at], heap[above]) < 0; above = (at - 1) >> 1) {
      this.swap(at, above)
      at = above
    }
  }

  delete(name: string): void {
    this.numbers.delete(name)
  }

  /** Of names with the same number the first. @returns undefined when there is none. */
  get(): string | undefined {
    const { heap } = this
    while (heap.length > 0 && this.numbers.get(heap[0][1]) !== heap[0][0]) this.pop()
    return heap[0]?.[1]
  }

  private pop(): void {
    const { heap } = this
    const last = heap.pop() as [number, string]
    if (heap.length === 0) return
    heap[0] = last
    for (let at = 0; ; ) {
      let first = at
      for (const below of [2 * at + 1, 2 * at + 2]) if (below < heap.length && before(heap[below], heap[first]) < 0) first = below
      if (first === at) return
      this.swap(at, first)
      at = first
    }
  }

  private swap(a: number, b: number): void {
    const { heap } = this
    ;[heap[a], heap[b]] = [heap[b], heap[a]]
  }
}

function before([number, name]: [number, string], [otherNumber, otherName]: [number, string]): number {
  return otherNumber - number || (name < otherName ? -1 : name > otherName ? 1 : 0)
}
