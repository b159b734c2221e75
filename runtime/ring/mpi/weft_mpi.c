/* What Weft calls of MPI, behind functions without MPI's types, which differ between libraries. Compiled by mpicc and
 * opened when a ring asks for it:
 *
 *     mpicc -shared -fPIC -O2 -o weft-mpi.so weft_mpi.c
 *
 * Every function gives NULL, or what went wrong. All calls of one process come one after the other. */

#include <mpi.h>
#include <stdlib.h>

#define WEFT_MPI_EXPORT __attribute__((visibility("default")))

static MPI_Comm ring = MPI_COMM_NULL;
static int owns_mpi = 0;
static char text[MPI_MAX_ERROR_STRING + 1];

static const char* said(int code) {
  int length = 0;
  if (code == MPI_SUCCESS) return NULL;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI gave an error that it has no words for";
  text[length] = '\0';
  return text;
}

/* Grows with what follows. */
WEFT_MPI_EXPORT int weft_mpi_version(void) { return 1; }

WEFT_MPI_EXPORT const char* weft_mpi_start(int* rank, int* ranks) {
  int started = 0, level = 0, code = MPI_Initialized(&started);
  if (code != MPI_SUCCESS) return said(code);
  if (!started) {
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return said(code);
    owns_mpi = 1;
  }
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) return "MPI was started without MPI_THREAD_SERIALIZED, which a ring needs";
  code = MPI_Comm_dup(MPI_COMM_WORLD, &ring);
  if (code != MPI_SUCCESS) return said(code);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  MPI_Comm_rank(ring, rank);
  MPI_Comm_size(ring, ranks);
  return NULL;
}

WEFT_MPI_EXPORT const char* weft_mpi_send(int peer, int tag, const void* data, int bytes, void** request) {
  MPI_Request* made = (MPI_Request*)malloc(sizeof(MPI_Request));
  if (made == NULL) return "out of memory";
  *request = made;
  return said(MPI_Isend(data, bytes, MPI_BYTE, peer, tag, ring, made));
}

WEFT_MPI_EXPORT const char* weft_mpi_receive(int peer, int tag, void* data, int bytes, void** request) {
  MPI_Request* made = (MPI_Request*)malloc(sizeof(MPI_Request));
  if (made == NULL) return "out of memory";
  *request = made;
  return said(MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, ring, made));
}

/* Is it done? Then the request is no more. `bytes`: of a receive, how many came. */
WEFT_MPI_EXPORT const char* weft_mpi_test(void** request, int* done, int* bytes) {
  MPI_Status status;
  const int code = MPI_Test((MPI_Request*)*request, done, &status);
  *bytes = 0;
  if (code == MPI_SUCCESS && !*done) return NULL;
  if (code == MPI_SUCCESS) MPI_Get_count(&status, MPI_BYTE, bytes);
  free(*request);
  *request = NULL;
  return said(code);
}

/* Takes one message with the tag from anybody, if there is one: *from is -1 where there is none. */
WEFT_MPI_EXPORT const char* weft_mpi_take(int tag, void* data, int bytes, int* from) {
  int found = 0, count = 0;
  MPI_Status status;
  int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, ring, &found, &status);
  *from = -1;
  if (code != MPI_SUCCESS || !found) return said(code);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count > bytes) return "a message is longer than its kind";
  code = MPI_Recv(data, count, MPI_BYTE, status.MPI_SOURCE, tag, ring, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS) *from = status.MPI_SOURCE;
  return said(code);
}

/* Ends MPI if this plug-in started it: with all ranks where `status` is 0, else by ending them. */
WEFT_MPI_EXPORT void weft_mpi_end(int status) {
  if (!owns_mpi) return;
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
}
