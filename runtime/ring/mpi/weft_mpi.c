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
WEFT_MPI_EXPORT int weft_mpi_version(void) { return 2; }

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

/* Nobody waits for it any more. What MPI has begun to send cannot be stopped, and its request is MPI's own then. */
WEFT_MPI_EXPORT void weft_mpi_cancel(void* request) {
  MPI_Cancel((MPI_Request*)request);
  MPI_Request_free((MPI_Request*)request);
  free(request);
}

/* Ends MPI if this plug-in started it: with all ranks where `status` is 0, else by ending them. */
WEFT_MPI_EXPORT void weft_mpi_end(int status) {
  if (!owns_mpi) return;
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
}
