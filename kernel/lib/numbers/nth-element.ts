/**
 * Puts the value at `place` that has that place in the order of values[from..to], none greater before it and none less behind it. In linear time, whatever the values and
 * whoever has put them in their order: they are divided around values that are chosen by chance.
 *
 * @param values none of those is NaN. @param place from `from` to `to`.
 */
export function nthElement(values: Float64Array, from: number, to: number, place: number): void {
  let [low, high] = [from, to]
  while (low < high) {
    const pivot = values[low + Math.floor(Math.random() * (high - low + 1))]
    let [i, j] = [low, high]
    while (i <= j) {
      while (values[i] < pivot) i++
      while (values[j] > pivot) j--
      if (i > j) break
      const value = values[i]
      values[i++] = values[j]
      values[j--] = value
    }
    if (place <= j) high = j
    else if (place >= i) low = i
    else return
  }
}
