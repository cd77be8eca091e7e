/* The arguments of a call from Python: the addresses of arrays that are just what a program takes.

     eq_take_arrays(arguments, results, pattern, places, table)
                                writes the addresses of the arrays of two tuples into the table of a call, and
                                returns 1; returns 0 where an argument is something else. `results` are arrays of
                                NumPy that are right. The caller holds the GIL.

     pattern: two classes that arguments may have, the function that tells of an object by DLPack (0: the objects are
     arrays of NumPy), the bits that no address may have, the number of arguments; then of each argument its element
     type, its rank and its sizes. An element type is NumPy's object, or DLPack's code, bits and lanes. Then the number
     of arguments that a call changes, their numbers, and the bytes of all arguments: such an array must be writable, and
     share no memory with another one.
     places: the number of pairs, then of each pair a place in the table and the number of an array, the arguments'
     before the results'.

   The structs are the binary interfaces of CPython (a tuple), NumPy (an array) and DLPack 1, whose headers may be
   missing where programs are compiled. */
#include <stddef.h>
#include <stdint.h>

typedef struct { intptr_t references; const void *type; } eq_object;
typedef struct { eq_object head; intptr_t count; const eq_object *items[]; } eq_tuple;
typedef struct {
  eq_object head;
  void *data;
  int rank;
  const intptr_t *sizes, *strides;
  const void *base, *element_type;
  int flags;
} eq_array;
typedef struct {
  void *data;
  int32_t device_type, device;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *sizes, *strides;
  uint64_t offset;
} eq_dlpack;
typedef int (*eq_tells_by_dlpack)(const eq_object *object, eq_dlpack *told);
enum { EQ_C_CONTIGUOUS = 1, EQ_WRITEABLE = 0x400, EQ_HOST = 1 };

static int eq_has_sizes(const int64_t *sizes, const int64_t *wanted, int64_t rank) {
  for (int64_t axis = 0; axis < rank; axis++)
    if (sizes[axis] != wanted[axis]) return 0;
  return 1;
}

static int eq_is_contiguous(const int64_t *strides, const int64_t *sizes, int64_t rank) {
  int64_t step = 1;
  for (int64_t axis = strides ? rank : 0; axis--; step *= sizes[axis])
    if (sizes[axis] != 1 && strides[axis] != step) return 0;
  return 1;
}

/* The address of an array of this element type and these sizes; 0 for any other. */
static uint64_t eq_address_of_array(const eq_array *array, const int64_t *wanted) {
  _Static_assert(sizeof(intptr_t) == sizeof(int64_t), "sizes of NumPy have 64 bits");
  if ((int64_t)(intptr_t)array->element_type != wanted[0] || array->rank != wanted[1]) return 0;
  if (!(array->flags & EQ_C_CONTIGUOUS) || !eq_has_sizes((const int64_t *)array->sizes, wanted + 2, wanted[1])) return 0;
  return (uint64_t)(uintptr_t)array->data;
}

static uint64_t eq_address_by_dlpack(const eq_object *object, eq_tells_by_dlpack tells, const int64_t *wanted) {
  eq_dlpack told;
  if (tells(object, &told) || told.device_type != EQ_HOST || told.rank != wanted[1]) return 0;
  if ((told.code | told.bits << 8 | told.lanes << 16) != wanted[0]) return 0;
  if (!eq_has_sizes(told.sizes, wanted + 2, wanted[1]) || !eq_is_contiguous(told.strides, told.sizes, told.rank)) return 0;
  return (uint64_t)(uintptr_t)told.data + told.offset;
}

static int eq_overlap(uint64_t one, int64_t bytes, uint64_t other, int64_t others) {
  return one < other + (uint64_t)others && other < one + (uint64_t)bytes;
}

/* Whether the arguments that a call changes are writable, and lie apart from all others. */
static int eq_may_write(const eq_tuple *arguments, int is_array, const uint64_t *addresses, const int64_t *written) {
  const int64_t *bytes = written + 1 + written[0];
  for (int64_t place = 1; place <= written[0]; place++) {
    int64_t own = written[place];
    if (is_array && !(((const eq_array *)arguments->items[own])->flags & EQ_WRITEABLE)) return 0;
    for (int64_t other = 0; other < arguments->count; other++)
      if (other != own && eq_overlap(addresses[own], bytes[own], addresses[other], bytes[other])) return 0;
  }
  return 1;
}

__attribute__((visibility("default")))
int32_t eq_take_arrays(const eq_tuple *arguments, const eq_tuple *results, const int64_t *pattern,
                       const int64_t *places, uint64_t *table) {
  const int64_t *classes = pattern, misaligned = pattern[3], count = pattern[4];
  eq_tells_by_dlpack tells = (eq_tells_by_dlpack)(uintptr_t)pattern[2];
  uint64_t addresses[count + results->count + 1];
  if (arguments->count != count) return 0;
  pattern += 5;
  for (int64_t number = 0; number < count; number++) {
    const eq_object *object = arguments->items[number];
    int64_t type = (int64_t)(intptr_t)object->type;
    if (type != classes[0] && type != classes[1]) return 0;
    uint64_t at = tells ? eq_address_by_dlpack(object, tells, pattern)
                        : eq_address_of_array((const eq_array *)object, pattern);
    if (!at || at & (uint64_t)misaligned) return 0;
    addresses[number] = at;
    pattern += 2 + pattern[1];
  }
  if (!eq_may_write(arguments, !tells, addresses, pattern)) return 0;
  for (int64_t number = 0; number < results->count; number++)
    addresses[count + number] = (uint64_t)(uintptr_t)((const eq_array *)results->items[number])->data;
  for (int64_t pair = 0; pair < places[0]; pair++) table[places[1 + 2 * pair]] = addresses[places[2 + 2 * pair]];
  return 1;
}
